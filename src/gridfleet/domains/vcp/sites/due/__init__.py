"""What becomes due at sites: steps and ends of schedules, ends of overrides, starts of fallbacks."""
