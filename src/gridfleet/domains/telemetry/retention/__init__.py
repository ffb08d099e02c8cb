"""How long telemetry is kept, and the deletion of what is older."""
