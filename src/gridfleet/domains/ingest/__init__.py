"""Ingest: from a plant's message to stored telemetry. `pipeline.py` reads top to bottom: verify → decode → store."""
