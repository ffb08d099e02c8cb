"""HTTP requests to addresses that customers name: never to a private one, never further than they were told to go."""
