"""Sub-devices: cabinets, meters, inverters, batteries below a plant, addressed by their externalId."""
