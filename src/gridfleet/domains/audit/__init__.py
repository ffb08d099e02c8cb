"""Audit events: who did what to whom, when and from where.

Added in the transaction of what they tell of, never changed, deleted when they are old. The lowest domain, so that every
other can record.
"""
