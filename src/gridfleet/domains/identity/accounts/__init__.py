"""Accounts: who has one, their names and addresses, their passwords, and what is done with them by mail."""
