"""Whether counters continue after an edit, and how they count then."""

import msgspec
import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.energy.arithmetic import counter_increase
from gridfleet.domains.telemetry.energy.editions import Edition, Readings, is_continued
from gridfleet.domains.telemetry.energy.quarters import HOUR, QUARTER, continued, counter_quarters
from gridfleet.domains.telemetry.power.models import CounterState


def edition(text: str) -> Edition:
    """Return an edition from its unit, and from its field, scale and offset if they are known."""
    unit, _, scaling = text.partition(" ")
    return Edition.of(Metric("total", unit, scaling=scaling or None))


@pytest.mark.parametrize(
    ("before", "reading", "after", "following", "continues"),
    [
        ("kWh e 1.0 0.0", 5.0, "kWh e 1.0 0.0", 9_000.0, True),
        ("kWh e 1.0 0.0", 5.0, "kWh e 2.0 0.0", 5.1, False),
        ("kWh e 1.0 0.0", 5.0, "kWh e 1.0 0.1", 5.1, False),
        ("kWh e 1.0 0.0", 5.0, "kWh f 1.0 0.0", 5.1, False),
        ("kWh e 1.0 0.5", 5.0, "Wh e 1000.0 500.0", 9_000.0, True),
        ("kWh e 0.1 0.0", 5.0, "MWh e 0.0001 0.0", 9_000.0, True),
        ("kWh e 0.1 0.0", 5.0, "Wh e 10.0 0.0", 5.1, False),
        ("Wh e 1.0 0.0", 5.0, "kWh e 1.0 0.0", 150.0, True),
        ("Wh e 1.0 0.0", 5.0, "kWh e 1.0 0.0", 160.0, False),
        ("kWh e 1.0 0.0", 160.0, "Wh e 1.0 0.0", 5.0, False),
        ("kWh e 1.0 0.0", 150.0, "Wh e 1.0 0.0", 5.0, True),
        ("Wh e 1.0 0.0", 0.0, "kWh e 1.0 0.0", 1.0, False),
        ("Wh e 1.0 0.0", 1.0, "kWh e 1.0 0.0", 0.0, False),
        ("Wh", 5.0, "kWh e 1.0 0.0", 5.1, True),
        ("Wh", 5.0, "kWh", 5_001.0, False),
        ("kWh", 5.0, "kWh e 0.1 0.0", 9_000.0, True),
        ("", 5_000.0, "kWh total 1.0 0.0", 5_001.0, True),
        ("", 5_000.0, "kWh total 0.001 0.0", 5.0, False),
        ("Wh e 1.0 0.0", 1.7e308, "MWh e 1.0 0.0", 1.7e308, True),
    ],
)
def test_a_counter_continues_if_its_scale_is_the_same(
    before: str, reading: float, after: str, following: float, continues: bool
) -> None:
    assert is_continued(edition(before), reading, edition(after), following) is continues


@pytest.mark.parametrize(
    ("readings", "edits", "increase"),
    [
        ([1.0, 2.0, 700.0, 701.0], {2}, 2.0),
        ([1.0, 2.0, 700.0, 701.0], {0}, 700.0),
        ([1.0, 2.0, 0.0, 0.0, 701.0, 702.0], {2}, 2.0),
        ([1.0, 2.0, 0.0, -1.0, 701.0, 702.0], {3}, 2.0),
        ([1.0, 0.0, 2.0, 700.0], {3}, 1.0),
        ([500.0, 501.0, 400.0, 500.0, 501.0], {2}, 102.0),
        ([5.0, 7.0, 9.0], {0, 1, 2}, 0.0),
    ],
)
def test_the_first_positive_reading_after_an_edit_sets_the_level(
    readings: list[float], edits: set[int], increase: float
) -> None:
    assert counter_increase(readings, 0, edits) == increase
    times = [number * QUARTER // 10 for number in range(len(readings))]
    assert counter_quarters(times, readings, 0, 4, edits).rises == [increase, None, None, None]


def test_an_edit_after_a_gap_and_one_before_it_count_once() -> None:
    times = [0, QUARTER, 26 * HOUR, 26 * HOUR + QUARTER, 26 * HOUR + 2 * QUARTER]
    rises = counter_quarters(times, [1.0, 80.0, 90.0, 95.0, 700.0], 26 * HOUR, 4, {1, 4}).rises
    assert rises == [0.0, 5.0, 0.0, None]


def test_a_reading_of_another_edition_does_not_show_a_misread_one() -> None:
    first, second = edition("kWh e 1.0 0.0"), edition("kWh e 2.0 0.0")
    earlier = Readings([10], [3.0], {10: first})
    for editions in ({20: second, 30: second}, {20: first, 30: second}):
        assert continued(earlier, Readings([20, 30], [9.0, 5.0], editions), with_last=False).values == [9.0, 5.0]


def test_states_with_an_edition_are_read_by_earlier_releases() -> None:
    class EarlierState(msgspec.Struct, array_like=True):
        level: float
        last: float
        added: float
        time: int
        was_zero: bool = False

    state = CounterState(1.0, 2.0, 1.0, 7, True, edition("kWh e 1.0 0.0"))
    text = msgspec.json.encode(state)
    assert msgspec.json.decode(text, type=CounterState) == state
    assert msgspec.json.decode(text, type=EarlierState) == EarlierState(1.0, 2.0, 1.0, 7, True)
