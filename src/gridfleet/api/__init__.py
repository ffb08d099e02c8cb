"""HTTP interface. Modules are named for the first segment of the URL that they serve; `http` holds the machinery."""
