"""Telemetry: write frames and newest values; answer queries and compute energy.

A frame is one row with all values that a source (a plant or one of its sub-devices) reported at one time. A layout names the
metric at each position.
"""
