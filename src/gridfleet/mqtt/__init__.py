"""Bytes from plants: shards of the broker's queues, consumed in batches and handed to the ingest."""
