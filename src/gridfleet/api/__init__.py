"""HTTP edge: modules named for the first segment of the URL they serve, on the machinery in `_http`."""
