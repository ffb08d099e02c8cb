"""Device templates: signal maps, the decoder made of them, command actions with typed parameters.

Templates are one global catalogue. A template's signals say which field of a device's entry is which metric.
"""
