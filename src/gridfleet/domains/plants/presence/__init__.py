"""Presence of plants and sub-devices: when they were last seen, and their statuses."""
