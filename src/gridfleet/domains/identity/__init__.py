"""Identity of users: accounts, passwords, login with lockout, sessions with rotating refresh tokens.

Accounts are global. The organisations of a user belong to `domains.organizations`.
"""
