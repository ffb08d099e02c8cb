"""Clients of the service, as plants, partners, users and operators have them."""
