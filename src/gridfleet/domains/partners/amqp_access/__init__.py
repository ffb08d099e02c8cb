"""What a partner may do at the broker.

The broker sends a request at every login, and caches the answers about vhosts, resources and topics for a minute. Everything
that can be revoked is therefore decided at login.
"""
