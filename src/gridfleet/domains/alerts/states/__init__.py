"""The states of metrics for rules: since when a condition holds, and which alert it raised."""
