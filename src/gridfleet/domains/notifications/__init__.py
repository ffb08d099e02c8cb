"""Notifications: their recipients and channels, users' registered devices, and the log of every delivery."""
