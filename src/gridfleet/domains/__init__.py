"""The business, one package a domain; a domain imports only domains below it (docs/architecture.md)."""
