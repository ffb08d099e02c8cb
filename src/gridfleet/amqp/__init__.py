"""The gateway: upkeep of the broker, plant commands, and partners' commands and events."""
