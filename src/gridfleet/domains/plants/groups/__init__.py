"""Plant groups: named sets of an organisation's plants. A plant may be in several."""
