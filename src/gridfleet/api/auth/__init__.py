"""`/api/v1/auth`: login, refresh, logout, and who is logged in."""
