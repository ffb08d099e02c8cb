"""A plant's secrets: its HMAC secret, its MQTT password, and its package while it may be downloaded.

Everything is encrypted or hashed at rest.
"""
