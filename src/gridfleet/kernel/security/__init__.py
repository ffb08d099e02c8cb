"""Keys, certificates, passwords and tokens: thin layers over well-kept libraries, no primitives of our own."""
