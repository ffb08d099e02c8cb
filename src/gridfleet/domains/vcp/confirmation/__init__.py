"""Modes, schedules and schedule steps that a plant has not confirmed yet.

They are issued again when their command ends without a confirmation.
"""
