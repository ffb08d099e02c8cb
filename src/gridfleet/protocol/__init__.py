"""What travels between plants, partners and the service: topics, envelopes, signatures.

Pure functions and structs without I/O. Both sides of a connection import this package, so that a byte is
defined once.
"""
