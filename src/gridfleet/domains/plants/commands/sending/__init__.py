"""The queue of commands to send: which of them are due, and when each is due again."""
