"""Keys, certificates, passwords and tokens.

These are thin layers over maintained libraries, without own cryptographic primitives.
"""
