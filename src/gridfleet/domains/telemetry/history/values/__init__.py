"""The values in frames: raw, counted, and in buckets."""
