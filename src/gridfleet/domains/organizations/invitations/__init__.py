"""Invitations: an address is asked to join an organisation with a role, and does so with a token that only it was mailed."""
