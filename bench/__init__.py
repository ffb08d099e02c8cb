"""The benchmark: how fast telemetry gets from the broker into the database, against limits measured in the same run."""
