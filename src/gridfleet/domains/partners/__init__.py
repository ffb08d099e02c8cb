"""API keys of partners: creating and revoking them, what their scopes allow over REST, and what they may do at the
broker.
"""
