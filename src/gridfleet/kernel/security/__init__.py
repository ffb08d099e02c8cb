"""Keys, certificates, passwords and tokens: thin layers over maintained libraries, without cryptographic primitives of our
own."""
