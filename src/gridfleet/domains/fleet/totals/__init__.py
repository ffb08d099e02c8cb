"""The totals of a fleet."""
