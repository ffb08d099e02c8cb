"""Coded errors of alerts and their rules."""

from gridfleet.kernel.errors import NotFound

__all__ = ["AlertNotFound", "RuleNotFound"]


class AlertNotFound(NotFound):
    """The organisation has no such alert."""

    message = "There is no such alert."


class RuleNotFound(NotFound):
    """The organisation has no such rule."""

    message = "There is no such alert rule."
