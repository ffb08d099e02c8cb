"""Invitations of an e-mail address to an organisation with a role, accepted with a token that is mailed to the address."""
