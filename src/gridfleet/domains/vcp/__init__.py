"""Sites as trading partners control them: signed commands, limits, modes, schedules, and the events sent to partners.

A partner command is verified, checked against the site, and relayed as a plant command of `domains.plants.commands`. The
entry in the command log follows the state of that plant command.
"""
