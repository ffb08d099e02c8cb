"""`/api/v1/svc-esm`: the sandbox ESM, with its administration for SuperAdmins and its API for clients."""
