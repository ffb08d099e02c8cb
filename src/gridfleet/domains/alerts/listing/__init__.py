"""Alerts as users read them, and their numbers by status and severity."""
