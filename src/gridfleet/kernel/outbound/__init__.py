"""HTTP requests to addresses that customers configure: never to a private address, and no redirects are followed."""
