"""Texts of alerts: plant, measured value and condition of the rule."""

from typing import Final

from gridfleet.domains.alerts.models import AlertRule, Condition
from gridfleet.kernel.numbers import compared

__all__ = ["alert_message"]

_WORDS: Final = {Condition.LT: "below", Condition.GT: "above", Condition.EQ: "equal to"}


def alert_message(rule: AlertRule, plant: str, metric: str, value: float, unit: str) -> str:
    """Return one line with rule, plant and metric with its value: "Low battery: soc of North is 9.5 %, below 10 %"."""
    after = f" {unit}" if unit else ""
    lasting = f" for {rule.for_seconds} s" if rule.for_seconds else ""
    measured, threshold = compared(value, rule.threshold)
    return f"{rule.name}: {metric} of {plant} is {measured}{after}, {_WORDS[rule.condition]} {threshold}{after}{lasting}"
