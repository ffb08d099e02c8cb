"""Modes, schedules, schedule steps and limits that a plant has not confirmed yet.

They are issued again when their command ends without a confirmation.
"""
