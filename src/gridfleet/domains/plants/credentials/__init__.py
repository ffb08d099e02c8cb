"""A plant's secrets: the HMAC secret it signs with, its MQTT password, and its package for the short time it may be
downloaded. Everything is encrypted (or hashed) at rest."""
