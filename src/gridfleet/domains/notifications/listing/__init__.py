"""The log of deliveries as users read it."""
