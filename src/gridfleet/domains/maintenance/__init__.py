"""Upkeep of the whole deployment: its cache, and its encrypted credentials under another key. It owns no table."""
