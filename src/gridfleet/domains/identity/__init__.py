"""Who people are: accounts, passwords, login with its lockout, sessions with their rotating refresh tokens.

Global, not of any organisation; which organisations a person belongs to is `domains.organizations`' business.
"""
