"""Energy of the day: what a plant produced, imported and exported since midnight UTC."""
