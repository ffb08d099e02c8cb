"""The sandbox ESM: replaces a real ESM for organisations that a SuperAdmin gives credentials to.

It owns its clients, their tokens, its plants and their behaviour. Trading calls it over HTTP, like any ESM.
"""
