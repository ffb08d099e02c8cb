"""Evaluate a rule's condition on values. Pure functions; times in microseconds since 2000."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gridfleet.domains.alerts.models import AlertRule, Condition

__all__ = [
    "MAX_AGE_SECONDS",
    "MAX_GAP_SECONDS",
    "Point",
    "Progress",
    "RuleState",
    "advance",
    "complaint_about",
    "has_cleared",
    "holds",
]

MAX_AGE_SECONDS: Final = 900
"""Older points raise no alert."""

MAX_GAP_SECONDS: Final = 930
"""A longer gap between points restarts the time for which a condition has held. A device that measures every quarter of an hour
is some seconds late.
"""

_SECOND: Final = 1_000_000


class Point(NamedTuple):
    """A value and its time."""

    time: int
    value: float


class RuleState(NamedTuple):
    """The state of one metric for a rule.

    Attributes:
        since: When the condition began to hold.
        seen_at: Time of the last value that was counted.
        raised: Whether an alert was raised.
    """

    since: int
    seen_at: int
    raised: bool


class Progress(NamedTuple):
    """The result of `advance`: the new state, the point that raised an alert, and whether the earlier alert cleared.

    `state` is None if neither the condition has begun to hold nor an alert waits to clear.
    """

    state: RuleState | None
    raised_at: Point | None
    cleared: bool


def holds(condition: Condition, threshold: float, value: float) -> bool:
    """Return whether a value meets the condition."""
    if condition is Condition.LT:
        return value < threshold
    return value > threshold if condition is Condition.GT else value == threshold


def has_cleared(rule: AlertRule, value: float) -> bool:
    """Return whether a value ends an alert: it does not match and has reached the clear threshold, if there is one."""
    if holds(rule.condition, rule.threshold, value):
        return False
    if rule.clear_threshold is None:
        return True
    return value >= rule.clear_threshold if rule.condition is Condition.LT else value <= rule.clear_threshold


def complaint_about(condition: Condition, threshold: float, clear_threshold: float | None) -> str | None:
    """Return the complaint about a clear threshold, such as `clearThreshold: must not be …`; None if there is none.

    Args:
        condition: The condition of the rule.
        threshold: The value that the condition compares with.
        clear_threshold: The value that clears an alert, in the unit of `threshold`; None is always valid.
    """
    if clear_threshold is None:
        return None
    if condition is Condition.EQ:
        return "clearThreshold: has no meaning with condition EQ"
    if condition is Condition.LT and clear_threshold < threshold:
        return "clearThreshold: must not be below threshold with condition LT"
    if condition is Condition.GT and clear_threshold > threshold:
        return "clearThreshold: must not be above threshold with condition GT"
    return None


def advance(
    rule: AlertRule,
    state: RuleState | None,
    points: Iterable[tuple[int, float]],
    *,
    may_raise: bool,
    newest: int | None = None,
) -> Progress:
    """Apply the rule to points, (time, value), in the order of their times.

    Args:
        rule: The rule.
        state: The state of the metric after earlier points. Points that are not newer than its last one change nothing.
        points: The new points.
        may_raise: Whether an alert may be raised, at most one; otherwise the metric stays ready to raise one.
        newest: Time of the newest earlier point. Without a state the condition did not hold at that time, so earlier points do
            not start its time.
    """
    raised_at: Point | None = None
    cleared = False
    for time, value in points:
        if state is not None and time <= state.seen_at:
            continue
        if state is not None and state.raised:
            if has_cleared(rule, value):
                # Only an alert of an earlier batch clears here. For an alert of this batch, the result is `raised_at`
                # without a state.
                cleared = cleared or raised_at is None
                state = None
            else:
                # Otherwise a late value would clear an alert whose condition holds now.
                state = state._replace(seen_at=time)
            continue
        if not holds(rule.condition, rule.threshold, value):
            state = None
            continue
        if state is None and rule.for_seconds and newest is not None and time <= newest:
            continue
        broken = state is None or time - state.seen_at > MAX_GAP_SECONDS * _SECOND
        since = time if state is None or broken else state.since
        due = time - since >= rule.for_seconds * _SECOND and may_raise and raised_at is None
        if due:
            raised_at = Point(time, value)
        state = RuleState(since, time, due and rule.latches)
    return Progress(state, raised_at, cleared)
