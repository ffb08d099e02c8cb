"""The ways a notification takes to a person."""
