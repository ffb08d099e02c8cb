"""Modes, schedules and steps until the plant confirms them: issued again when their command ends without that."""
