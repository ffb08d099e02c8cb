"""Data for installers: refused messages with their reason, and unregistered devices."""
