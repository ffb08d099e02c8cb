"""Maintenance of the whole deployment: the cache, and the re-encryption of credentials. It owns no table."""
