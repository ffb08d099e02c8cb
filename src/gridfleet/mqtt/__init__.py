"""Messages of plants: consume shards of the broker's queues in batches and pass them to ingest."""
