"""`/api/v1/plants`: registry, provisioning, sub-devices, energy, and views for installers."""
