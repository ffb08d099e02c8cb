"""What a partner may do at the broker. The broker asks at every login and caches for a minute what it was told about vhosts,
resources and topics; so everything that can be revoked is decided at login."""
