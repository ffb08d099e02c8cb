"""What an installer needs to see: refused messages with their reason, and devices nobody has registered yet."""
