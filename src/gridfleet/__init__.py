"""Gridfleet: open fleet energy management."""
