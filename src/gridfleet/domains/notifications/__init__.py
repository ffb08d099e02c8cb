"""Notifications: who is told by which channel, the devices people registered, and the log of every delivery."""
