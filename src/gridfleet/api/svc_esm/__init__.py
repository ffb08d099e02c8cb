"""`/api/v1/svc-esm`: the sandbox ESM, as SuperAdmins keep it and as its clients use it."""
