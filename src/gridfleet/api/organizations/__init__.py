"""`/api/v1/organizations`."""
