"""The deployment's certificate authority: made on first start, kept encrypted in the database, shared by every process."""
