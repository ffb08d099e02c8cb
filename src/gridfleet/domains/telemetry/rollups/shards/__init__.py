"""Recomputation of roll-ups whose tables are distributed."""
