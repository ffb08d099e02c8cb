"""What a plant may do at the broker. The broker asks at every login and caches what it was told about resources and
topics for a minute; so everything that can be revoked is decided at login."""
