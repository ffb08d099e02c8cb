"""Roles of signals that devices had with their earlier templates."""
