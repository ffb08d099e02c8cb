"""Refused messages and unregistered devices of all plants of an organisation."""
