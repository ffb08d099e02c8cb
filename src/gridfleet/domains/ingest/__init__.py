"""Ingest: from a plant's bytes to stored telemetry. `pipeline.py` reads top to bottom: verify → decode → store."""
