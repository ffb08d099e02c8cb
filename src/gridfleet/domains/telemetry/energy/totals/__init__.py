"""Totals of the energies of an organisation's plants."""
