"""Keys, certificates, passwords and tokens.

These are thin layers over maintained libraries, without cryptographic primitives of our own.
"""
