"""The gateway's side of the broker: its upkeep now, partners' commands and events as they are built."""
