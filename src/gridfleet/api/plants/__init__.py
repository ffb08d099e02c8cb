"""Plants over HTTP: registry, provisioning, sub-devices, energy, what an installer needs."""
