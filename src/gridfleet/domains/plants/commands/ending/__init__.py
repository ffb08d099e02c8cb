"""Commands that end before their plant has acknowledged them: withdrawn, or expired."""
