"""Queued and periodic jobs: thin definitions that call domains."""
