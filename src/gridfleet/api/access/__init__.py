"""Who may call, and what was already answered: guards, the cache of access rights and its invalidation, idempotency keys."""
