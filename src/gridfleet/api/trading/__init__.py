"""`/api/v1/trading`: an organisation's ESM, and its plants there."""
