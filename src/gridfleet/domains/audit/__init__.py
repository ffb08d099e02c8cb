"""Audit events: who did what to which subject, when and from which address.

Inserted in the transaction of the change that they record, never changed, deleted after their retention. The lowest domain,
so that every other domain can record events.
"""
