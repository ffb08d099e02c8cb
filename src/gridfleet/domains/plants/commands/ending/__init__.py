"""Commands that end before their plant acknowledges them: withdrawn or expired."""
