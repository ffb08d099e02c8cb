"""The sandbox ESM: stands in for a real one, for an organisation that a SuperAdmin gives credentials to.

It owns its clients, their tokens, its plants and how those behave. Trading reaches it over HTTP, as it reaches any ESM.
"""
