"""The certificate authority of the deployment.

It is created on first start, stored encrypted in the database and used by every process.
"""
