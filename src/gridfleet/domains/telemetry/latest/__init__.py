"""The newest value of every metric."""
