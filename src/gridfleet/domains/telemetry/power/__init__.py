"""Newest power, state of charge and energy of plants, which ingest keeps up to date."""
