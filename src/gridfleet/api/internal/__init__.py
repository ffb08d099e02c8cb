"""Endpoints of the internal listener for the broker. Never public; every path is below a secret."""
