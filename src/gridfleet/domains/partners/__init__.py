"""API keys of partners: creation and revocation, access over REST, and rights at the broker."""
