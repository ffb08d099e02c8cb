"""Device templates: signals, the decoder compiled from them, and command actions with typed parameters.

Templates are one global catalogue. The signals of a template map the fields of a device's entry to metrics.
"""
