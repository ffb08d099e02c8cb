"""The internal listener: what the broker asks. Never public; every path lies below a secret."""
