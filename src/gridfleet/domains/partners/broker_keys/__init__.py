"""The keys that partners may use at the broker."""
