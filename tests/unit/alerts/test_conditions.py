"""Runs of values: what raises and what clears, against a plain model."""

import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.alerts.conditions import MAX_GAP_SECONDS, Point, RuleState, advance, complaint_about, has_cleared, holds
from gridfleet.domains.alerts.messages import alert_message
from gridfleet.domains.alerts.models import AlertRule, Condition
from gridfleet.domains.alerts.rules.back_test import Replay
from gridfleet.kernel.ids import new_id
from support.builders.alerting import rule_columns

SECOND = 1_000_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def rule(**changes: object) -> AlertRule:
    """Below 10 by default."""
    members: dict[str, object] = {
        "id": new_id(),
        "organization_id": new_id(),
        "last_triggered_at": None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return AlertRule(**{**members, **rule_columns(**changes)})  # type: ignore[arg-type]


rules = st.builds(
    lambda condition, seconds, gap, resolves: rule(
        condition=condition,
        for_seconds=seconds,
        clear_threshold=None if gap is None or condition is Condition.EQ else 10 + (gap if condition is Condition.LT else -gap),
        auto_resolve=resolves,
    ),
    st.sampled_from(Condition),
    st.sampled_from([0, 30, 60]),
    st.none() | st.integers(0, 5),
    st.booleans(),
)
runs = st.lists(st.tuples(st.integers(1, 1200), st.integers(0, 20)), max_size=30)


def points(steps: list[tuple[int, int]]) -> list[Point]:
    """Points from (seconds after the one before, value)."""
    time, found = 0, []
    for gap, value in steps:
        time += gap * SECOND
        found.append(Point(time, float(value)))
    return found


def model(chosen: AlertRule, run: list[Point]) -> tuple[list[int], list[int]]:
    """(times of alerts, times of clearing), value by value without a cooldown."""
    raised: list[int] = []
    cleared: list[int] = []
    since: int | None = None
    last: int | None = None
    latched = False
    latches = chosen.clear_threshold is not None or chosen.auto_resolve
    for time, value in run:
        if latched:
            if has_cleared(chosen, value):
                cleared.append(time)
                latched, since, last = False, None, None
            continue
        if not holds(chosen.condition, chosen.threshold, value):
            since = last = None
            continue
        if since is None or last is None or time - last > MAX_GAP_SECONDS * SECOND:
            since = time
        last = time
        if time - since >= chosen.for_seconds * SECOND:
            raised.append(time)
            latched = latches
    return raised, cleared


@given(rules, runs)
def test_point_by_point_it_does_what_the_model_does(chosen: AlertRule, steps: list[tuple[int, int]]) -> None:
    state: RuleState | None = None
    raised, cleared = [], []
    for point in points(steps):
        step = advance(chosen, state, [point], may_raise=True)
        state = step.state
        raised += [step.raised_at.time] if step.raised_at else []
        cleared += [point.time] if step.cleared else []
    assert (raised, cleared) == model(chosen, points(steps))


@given(rules, runs, st.data())
def test_batches_end_where_single_points_end_while_nothing_may_raise(
    chosen: AlertRule, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    run = points(steps)
    cut = data.draw(st.integers(0, len(run)))
    whole = advance(chosen, None, run, may_raise=False)
    first = advance(chosen, None, run[:cut], may_raise=False)
    second = advance(chosen, first.state, run[cut:], may_raise=False)
    assert whole.state == second.state
    assert whole.raised_at is first.raised_at is second.raised_at is None


@given(rules, runs)
def test_what_was_counted_before_counts_no_second_time(chosen: AlertRule, steps: list[tuple[int, int]]) -> None:
    run = points(steps)
    once = advance(chosen, None, run, may_raise=False)
    if once.state is not None:
        assert advance(chosen, once.state, run, may_raise=True) == (once.state, None, False)


@given(rules, runs)
def test_the_first_alert_of_a_batch_is_the_first_of_the_model(chosen: AlertRule, steps: list[tuple[int, int]]) -> None:
    step = advance(chosen, None, points(steps), may_raise=True)
    raised, _ = model(chosen, points(steps))
    assert (step.raised_at.time if step.raised_at else None) == (raised[0] if raised else None)
    assert not step.cleared, "there was no earlier alert"


@pytest.mark.parametrize(
    ("condition", "clear", "fine"),
    [
        ("LT", 10, True),
        ("LT", 12, True),
        ("LT", 9, False),
        ("GT", 9, True),
        ("GT", 11, False),
        ("EQ", 10, False),
        ("EQ", None, True),
    ],
)
def test_a_clear_threshold_lies_on_the_good_side(condition: str, clear: float | None, fine: bool) -> None:
    assert (complaint_about(Condition(condition), 10, clear) is None) is fine


def test_messages() -> None:
    assert (
        alert_message(rule(for_seconds=60, threshold=10.5), "North", "bat1.soc", 9.123456789, "%")
        == "Low battery: bat1.soc of North is 9.12346 %, below 10.5 % for 60 s"
    )


@pytest.mark.parametrize(
    ("condition", "threshold", "value", "words"),
    [
        ("GT", 1_200_000, 1_200_003, "1200003 W, above 1200000 W"),
        ("GT", 12_345_678.4, 12_345_678.6, "12345679 W, above 12345678 W"),
        ("LT", 10, 9.99999999, "9.99999999 W, below 10 W"),
        ("LT", 0.1 + 0.2, 0.3, "0.3 W, below 0.30000000000000004 W"),
        ("EQ", 1_000_000, 1_000_000, "1000000 W, equal to 1000000 W"),
        ("EQ", 0.0, -0.0, "0 W, equal to 0 W"),
        ("LT", 1e-7, -1e300, "-1e+300 W, below 1e-07 W"),
    ],
)
def test_a_message_shows_in_what_value_and_threshold_differ(condition: str, threshold: float, value: float, words: str) -> None:
    chosen = rule(condition=Condition(condition), threshold=threshold)
    assert alert_message(chosen, "North", "power", value, "W") == f"Low battery: power of North is {words}"


@pytest.mark.parametrize("clear_threshold", [None, 20.0])
def test_a_value_that_comes_late_does_not_clear_what_newer_values_confirmed(clear_threshold: float | None) -> None:
    chosen = rule(auto_resolve=True, clear_threshold=clear_threshold)
    state = advance(chosen, None, [Point(10, 5.0), Point(30, 5.0)], may_raise=True).state
    late = advance(chosen, state, [Point(20, 50.0)], may_raise=True)
    assert (late.cleared, late.state) == (False, state)
    assert advance(chosen, state, [Point(40, 50.0)], may_raise=True).cleared


arrivals = st.lists(st.tuples(st.integers(0, 2_000), st.sampled_from([5, 50])), max_size=40)
"""Values in the order in which they arrive: (second, value)."""


def held_since(chosen: AlertRule, arrived: list[Point]) -> int | None:
    """Since when the condition has held, by the values that were the newest when they arrived: back to the first break."""
    in_order: list[Point] = []
    for point in arrived:
        if not in_order or point.time > in_order[-1].time:
            in_order.append(point)
    since: int | None = None
    for time, value in reversed(in_order):
        broken = since is not None and since - time > MAX_GAP_SECONDS * SECOND
        if broken or not holds(chosen.condition, chosen.threshold, value):
            break
        since = time
    return since


@given(arrivals)
def test_in_any_order_of_arrival_a_time_starts_after_the_newest_value_that_did_not_match(seen: list[tuple[int, int]]) -> None:
    chosen = rule(for_seconds=60)
    arrived = [Point(second * SECOND, float(value)) for second, value in seen]
    state: RuleState | None = None
    newest: int | None = None
    for number, point in enumerate(arrived, 1):
        state = advance(chosen, state, [point], may_raise=False, newest=newest).state
        newest = point.time if newest is None else max(newest, point.time)
        assert (state and state.since) == held_since(chosen, arrived[:number])


@given(arrivals, st.data())
def test_batches_of_late_values_end_where_their_values_in_order_end(seen: list[tuple[int, int]], data: st.DataObject) -> None:
    chosen = rule(for_seconds=60)
    arrived = [Point(second * SECOND, float(value)) for second, value in seen]
    cut = data.draw(st.integers(0, len(arrived)))
    first, second = sorted(dict(arrived[:cut]).items()), sorted(dict(arrived[cut:]).items())
    state = advance(chosen, None, first, may_raise=False).state
    newest = first[-1][0] if first else None
    state = advance(chosen, state, second, may_raise=False, newest=newest).state
    assert (state and state.since) == held_since(chosen, [Point(*point) for point in (*first, *second)])


def test_a_preview_keeps_only_the_alerts_that_it_lists() -> None:
    """A rule that each of a million values meets raises as many."""
    each = rule(condition=Condition.GT, threshold=0, cooldown_minutes=0)
    replay, plant_id = Replay(each), new_id()
    sizes = []
    tracemalloc.start()
    for number in range(20_000):
        replay.take(each, 1, plant_id, "p", Point(number * 1_000_000, float(number + 1)))
        if number in (2_000, 19_999):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    outcome = replay.outcome()
    assert (outcome.points, outcome.alert_count, len(outcome.alerts)) == (20_000, 20_000, 1_000)
    assert sizes[1] < 1.5 * sizes[0], sizes


def test_values_of_every_quarter_of_an_hour_do_not_restart_the_time() -> None:
    """A program that waits for a quarter of an hour between two measurements is late by the time of a measurement."""
    run = [Point(number * (900 * SECOND + 20_000), 5.0) for number in range(4)]
    step = advance(rule(for_seconds=1_800), None, run, may_raise=True)
    assert step.raised_at == run[2]
