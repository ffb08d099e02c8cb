"""Reading: what was measured, raw or in buckets, and the newest values.

Answers are read page by page, each page in a transaction of its own: a client that reads slowly holds neither a
connection nor memory, however long its export is.
"""
