"""Reading of roll-ups."""
