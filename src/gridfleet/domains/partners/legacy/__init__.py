"""Keys of older integrations, which share the vhost `/`."""
