"""`/api/v1/trading`: an organisation's ESM, and its plants at the ESM."""
