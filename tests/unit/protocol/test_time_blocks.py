"""The rules of time blocks, one by one and over whole days."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.api.http.inputs import read
from gridfleet.api.trading.plants import PlantPlan
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.protocol.time_blocks import TimeBlock, complaints_about_blocks

DAY_MINUTES = 24 * 60

GOOD: dict[str, Any] = {"from": "08:00", "to": "09:30", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}


def complaints(blocks: Any) -> list[str]:
    """Everything that the service says about a plan."""
    try:
        read(PlantPlan, {"timeConfigs": blocks})
    except ValidationFailed as error:
        return error.details
    return []


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def block(start: int, end: int) -> dict[str, Any]:
    return {**GOOD, "from": clock(start), "to": clock(end)}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"from": "8:00"}, "from: must be a time of day, 00:00 to 23:59"),
        ({"from": "24:00"}, "from: must be a time of day, 00:00 to 23:59"),
        ({"from": "08:60"}, "from: must be a time of day, 00:00 to 23:59"),
        ({"from": "08:00:00"}, "from: must be a time of day, 00:00 to 23:59"),
        ({"from": "٠٨:00"}, "from: must be a time of day, 00:00 to 23:59"),
        ({"from": None}, "from: must not be null"),
        ({"from": 8}, "from: must be a string"),
        ({"to": "24:01"}, "to: must be a time of day, 00:01 to 24:00"),
        ({"to": "25:00"}, "to: must be a time of day, 00:01 to 24:00"),
        ({"to": "08:00"}, "to: must be after from"),
        ({"to": "07:59"}, "to: must be after from"),
        ({"pBatMin": 6}, "pBatMax: must not be below pBatMin"),
        ({"socMin": 91}, "socMax: must not be below socMin"),
        ({"socMin": -1}, "socMin: must be a number >= 0 and <= 100"),
        ({"socMax": 100.5}, "socMax: must be a number >= 0 and <= 100"),
        ({"pBatMax": "5"}, "pBatMax: must be a number"),
        ({"pbatMax": 5}, "pbatMax: is not a known field (did you mean pBatMax?)"),
    ],
)
def test_what_is_wrong_with_a_block(changes: dict[str, Any], complaint: str) -> None:
    assert complaints([{**GOOD, **changes}]) == [f"timeConfigs.0.{complaint}"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"from": "00:00", "to": "24:00"},
        {"from": "23:59", "to": "24:00"},
        {"from": "00:00", "to": "00:01"},
        {"pBatMin": 5},
        {"socMin": 90},
        {"socMin": 0, "socMax": 100},
        {"pBatMin": -1e9, "pBatMax": -1.5},
    ],
)
def test_what_is_right(changes: dict[str, Any]) -> None:
    assert complaints([{**GOOD, **changes}]) == []


@pytest.mark.parametrize("name", ["from", "to"])
def test_a_time_from_an_esm_ends_with_its_minutes(name: str) -> None:
    """Bodies of the API are trimmed; records of an ESM are not."""
    assert msgspec.convert(GOOD, TimeBlock).end == "09:30"
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert({**GOOD, name: f"{GOOD[name]}\n"}, TimeBlock)


@pytest.mark.parametrize("name", GOOD)
def test_every_member_is_needed(name: str) -> None:
    assert complaints([{key: value for key, value in GOOD.items() if key != name}]) == [f"timeConfigs.0.{name}: is required"]


def test_a_day_has_ninety_six_quarter_hours() -> None:
    day = [block(minute, minute + 15) for minute in range(0, DAY_MINUTES, 15)]
    assert day[-1]["to"] == "24:00"
    assert complaints(day) == []
    assert complaints(day[::-1]) == []
    assert complaints([*day, block(0, 1)]) == ["timeConfigs: must have at most 96 items"]


def test_every_complaint_is_listed() -> None:
    wrong = [{**GOOD, "to": "08:00", "pBatMin": 9, "socMin": 95}, {**GOOD, "from": "x"}]
    assert sorted(complaints(wrong)) == [
        "timeConfigs.0.pBatMax: must not be below pBatMin",
        "timeConfigs.0.socMax: must not be below socMin",
        "timeConfigs.0.to: must be after from",
        "timeConfigs.1.from: must be a time of day, 00:00 to 23:59",
    ]


@given(st.sets(st.integers(1, DAY_MINUTES - 1), max_size=95), st.randoms(use_true_random=False))
def test_any_way_to_cut_a_day_is_a_plan(cuts: set[int], random: Any) -> None:
    edges = [0, *sorted(cuts), DAY_MINUTES]
    day = [block(start, end) for start, end in itertools.pairwise(edges)]
    random.shuffle(day)
    assert complaints(day) == []


_spans = st.lists(
    st.tuples(st.integers(0, DAY_MINUTES - 1), st.integers(1, DAY_MINUTES)).filter(lambda span: span[0] < span[1]),
    min_size=1,
    max_size=12,
)


@given(_spans)
def test_overlaps_are_found_exactly_where_two_blocks_share_a_minute(spans: Sequence[tuple[int, int]]) -> None:
    blocks = [msgspec.convert(block(*span), TimeBlock) for span in spans]
    taken: set[int] = set()
    shared = False
    for start, end in spans:
        minutes = set(range(start, end))
        shared |= bool(taken & minutes)
        taken |= minutes
    found = list(complaints_about_blocks(blocks))
    assert bool(found) == shared
    for complaint in found:
        first, second = (int(part.split(".")[1].rstrip(":")) for part in complaint.split(" overlaps "))
        assert spans[first][0] < spans[second][1]
        assert spans[second][0] < spans[first][1]


@given(_spans)
def test_a_block_has_the_minutes_that_it_spells(spans: Sequence[tuple[int, int]]) -> None:
    for span in spans:
        assert msgspec.convert(block(*span), TimeBlock).minutes == span


def test_an_overlap_names_both_blocks() -> None:
    assert complaints("no list") == ["timeConfigs: must be an array"]
    assert complaints([block(0, 60), block(59, 120), block(120, 180), block(30, 150)]) == [
        "timeConfigs.3: overlaps timeConfigs.0",
        "timeConfigs.1: overlaps timeConfigs.3",
        "timeConfigs.2: overlaps timeConfigs.3",
    ]
