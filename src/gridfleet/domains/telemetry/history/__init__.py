"""Read telemetry: raw values, values in buckets, and newest values.

Responses are read page by page, each page in a transaction of its own: a slow client holds neither a connection nor memory,
regardless of the size of its export.
"""
