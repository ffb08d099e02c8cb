"""Queued and periodic work: thin definitions that call domains."""
