"""Upkeep of the whole deployment: its encrypted credentials under another key."""
