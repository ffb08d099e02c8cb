"""Organisations and who belongs to them, with which role.

Membership is where the right to act in an organisation, an `OrgScope`, is made.
"""
