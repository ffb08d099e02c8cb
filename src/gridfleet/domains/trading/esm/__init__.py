"""The client of an ESM's HTTP API."""
