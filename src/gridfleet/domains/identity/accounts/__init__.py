"""Accounts: their names, addresses and passwords, and the changes that are confirmed by mail."""
