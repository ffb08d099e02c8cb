"""Organisations, their members and the members' roles.

The module `membership` creates the right to act in an organisation, an `OrgScope`.
"""
