"""`/api/v1/fleet`: all plants of an organisation together."""
