"""Alert rules: changes by users, and lookups by ingest."""
