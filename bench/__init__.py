"""Benchmarks: telemetry throughput from broker to database, compared with limits measured in the same run."""
