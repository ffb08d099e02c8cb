"""What a plant may do at the broker.

The broker sends a request at every login, and caches answers about resources and topics for a minute. So every right that can
be revoked is checked at login.
"""
