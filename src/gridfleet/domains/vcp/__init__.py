"""Sites as trading partners steer them: signed orders, limits, modes, schedules, and the events that partners are told.

An order is verified, weighed against the site, and relayed as a command of `domains.plants.commands`, whose life the entry
in the log follows.
"""
