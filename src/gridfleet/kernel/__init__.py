"""Machinery that knows no business word."""
