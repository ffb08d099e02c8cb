"""Telemetry: frames and the newest values on the writing side, queries and energy on the reading side.

A frame is everything a source (a plant or one of its sub-devices) reported at one time, as one row whose places are
named by a layout.
"""
