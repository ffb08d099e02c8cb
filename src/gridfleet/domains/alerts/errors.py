"""Refusals about alerts and their rules."""

from gridfleet.kernel.errors import NotFound

__all__ = ["AlertNotFound", "RuleNotFound"]


class AlertNotFound(NotFound):
    """There is no such alert in the organisation."""

    message = "There is no such alert."


class RuleNotFound(NotFound):
    """There is no such rule in the organisation."""

    message = "There is no such alert rule."
