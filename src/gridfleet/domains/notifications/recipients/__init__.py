"""The recipients of notifications: which users get them, and at which addresses."""
