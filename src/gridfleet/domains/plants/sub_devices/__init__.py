"""Sub-devices: cabinets, meters, inverters and batteries of a plant, addressed by their externalId."""
