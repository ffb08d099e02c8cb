"""Partners' API keys: making and revoking them, what their scopes open over REST, and what they may do at the broker."""
