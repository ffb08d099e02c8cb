"""When a rule's condition holds, and what a run of values makes of it. Pure functions; times in microseconds since 2000."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gridfleet.domains.alerts.models import AlertRule, Condition

__all__ = ["MAX_AGE_SECONDS", "Point", "Progress", "RuleState", "advance", "complaint_about", "has_cleared", "holds"]

MAX_AGE_SECONDS: Final = 900
"""Older points raise nothing, and a longer silence breaks the time for which a condition has held."""

_SECOND: Final = 1_000_000


class Point(NamedTuple):
    """A value and its time."""

    time: int
    value: float


class RuleState(NamedTuple):
    """Where one metric stands with a rule: matching since `since`, counted up to `seen_at`; `raised` once it has alerted."""

    since: int
    seen_at: int
    raised: bool


class Progress(NamedTuple):
    """What a run of points did: the new state, the points that raised, and whether the earlier alert has cleared."""

    state: RuleState | None
    raised_at: Point | None
    cleared: bool


def holds(condition: Condition, threshold: float, value: float) -> bool:
    """Whether a value meets the condition."""
    if condition is Condition.LT:
        return value < threshold
    return value > threshold if condition is Condition.GT else value == threshold


def has_cleared(rule: AlertRule, value: float) -> bool:
    """Whether a value ends an alert: it does not match and has reached the clear threshold, if there is one."""
    if holds(rule.condition, rule.threshold, value):
        return False
    if rule.clear_threshold is None:
        return True
    return value >= rule.clear_threshold if rule.condition is Condition.LT else value <= rule.clear_threshold


def complaint_about(condition: Condition, threshold: float, clear_threshold: float | None) -> str | None:
    """What is wrong with a clear threshold, in words; None when it fits."""
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
        state: Where the metric stands by earlier points. Points that are not newer than its last one change nothing.
        points: The new points.
        may_raise: Whether an alert may be raised, at most one; otherwise the metric goes on waiting for one.
        newest: Time of the newest earlier point. Without a state the condition does not hold since then, so what came
            before it does not start the condition's time.
    """
    raised_at: Point | None = None
    cleared = False
    for time, value in points:
        if state is not None and time <= state.seen_at:
            continue
        if state is not None and state.raised:
            if has_cleared(rule, value):
                # What an earlier batch raised clears; what this one raised is told by `raised_at` and no state.
                cleared = cleared or raised_at is None
                state = None
            else:
                # Or a value that comes late would clear an alert whose condition holds now.
                state = state._replace(seen_at=time)
            continue
        if not holds(rule.condition, rule.threshold, value):
            state = None
            continue
        if state is None and rule.for_seconds and newest is not None and time <= newest:
            continue
        broken = state is None or time - state.seen_at > MAX_AGE_SECONDS * _SECOND
        since = time if state is None or broken else state.since
        due = time - since >= rule.for_seconds * _SECOND and may_raise and raised_at is None
        if due:
            raised_at = Point(time, value)
        state = RuleState(since, time, due and rule.latches)
    return Progress(state, raised_at, cleared)
