"""Texts of alerts: plant, measured value and condition of the rule."""

from typing import Final

from gridfleet.domains.alerts.models import AlertRule, Condition

__all__ = ["alert_message", "number"]

_WORDS: Final = {Condition.LT: "below", Condition.GT: "above", Condition.EQ: "equal to"}


def alert_message(rule: AlertRule, plant: str, metric: str, value: float, unit: str) -> str:
    """Return one line with rule, plant and metric with its value: "Low battery: soc of North is 9.5 %, below 10 %"."""
    after = f" {unit}" if unit else ""
    lasting = f" for {rule.for_seconds} s" if rule.for_seconds else ""
    return (
        f"{rule.name}: {metric} of {plant} is {number(value)}{after},"
        f" {_WORDS[rule.condition]} {number(rule.threshold)}{after}{lasting}"
    )


def number(value: float) -> str:
    """Format a value with at most six significant digits and no trailing zeros."""
    return f"{value:.6g}"
