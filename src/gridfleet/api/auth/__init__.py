"""`/api/v1/auth`: login, refresh, logout, and the logged-in user."""
