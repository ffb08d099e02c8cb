"""The channels of notifications."""
