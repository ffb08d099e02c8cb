"""Alert rules as people write them, and as the ingest looks them up."""
