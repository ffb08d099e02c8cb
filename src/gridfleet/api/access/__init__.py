"""Who may call, and which responses are stored: guards, the cache of access rights and its invalidation, idempotency keys."""
