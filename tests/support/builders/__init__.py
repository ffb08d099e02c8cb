"""Records and messages for tests."""
