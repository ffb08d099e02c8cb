"""Servers and processes that tests start and stop."""
