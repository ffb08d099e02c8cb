"""Times in answers are UTC with milliseconds, whatever holds them."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.api.http.json_out import list_to_json, to_json
from gridfleet.protocol.envelope import format_time


class Leaf(msgspec.Struct, frozen=True, rename="camel"):
    seen_at: datetime | None
    note: str | msgspec.UnsetType = msgspec.UNSET


class Other(msgspec.Struct, frozen=True, tag="other"):
    name: str


class Tagged(msgspec.Struct, frozen=True, tag="tagged"):
    at: datetime


class Tree(msgspec.Struct, frozen=True):
    leaves: list[Leaf]
    by_name: dict[str, Leaf]
    either: Other | Tagged | None
    times: tuple[datetime, ...]
    inner: "Tree | None" = None
    free: Any = None


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    value: float
    by_number: dict[int, float] = {}


MOMENT = datetime(2026, 1, 1, 1, 2, 3, 456_789, timezone(timedelta(hours=1)))
SHOWN = "2026-01-01T00:02:03.456Z"


def test_times_are_found_in_every_kind_of_place() -> None:
    inner = Tree([], {}, None, ())
    tree = Tree(
        [Leaf(MOMENT), Leaf(None, "a")], {"x": Leaf(MOMENT)}, Tagged(MOMENT), (MOMENT,), inner, {"t": "2026-01-01T00:00:00Z"}
    )
    assert json.loads(to_json(tree)) == {
        "leaves": [{"seenAt": SHOWN}, {"seenAt": None, "note": "a"}],
        "by_name": {"x": {"seenAt": SHOWN}},
        "either": {"type": "tagged", "at": SHOWN},
        "times": [SHOWN],
        "inner": {"leaves": [], "by_name": {}, "either": None, "times": [], "inner": None, "free": None},
        "free": {"t": "2026-01-01T00:00:00Z"},
    }


@pytest.mark.parametrize("zone", [UTC, ZoneInfo("UTC"), ZoneInfo("Europe/London"), ZoneInfo("Asia/Kathmandu")])
@given(moment=st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)))
def test_any_time_is_printed_as_everywhere_else(zone: Any, moment: datetime) -> None:
    aware = moment.replace(tzinfo=zone)
    assert to_json(aware) == f'"{format_time(aware)}"'.encode()


def test_numbers_keep_their_value_and_what_json_cannot_represent_is_null() -> None:
    numbers = [0.1, -0.0, 1e22, 5e-324, 1.7976931348623157e308, float("nan"), float("inf"), 2**53 - 1]
    assert json.loads(to_json([Measured(number) for number in numbers])) == [
        {"value": None if isinstance(number, float) and not math.isfinite(number) else number} for number in numbers
    ]
    assert json.loads(to_json(Measured(1.5, {7: 2.5}))) == {"value": 1.5, "by_number": {"7": 2.5}}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**20, 10**308])
def test_integers_beyond_64_bits_are_written(number: int) -> None:
    """PostgreSQL returns a stored 1e20 as such an integer."""
    value = {"a": [number], "é": 1.5, "at": MOMENT}
    assert to_json(value) == f'{{"a":[{number}],"é":1.5,"at":"{SHOWN}"}}'.encode()


@pytest.mark.parametrize("beside", [1, 10**30])
def test_raw_json_inside_a_record_is_written_as_it_is(beside: int) -> None:
    raw = msgspec.Raw(b'{"a": [1, "\xc3\xa4"], "b": null}')
    assert json.loads(to_json({"raw": [raw], "beside": beside})) == {"raw": [{"a": [1, "ä"], "b": None}], "beside": beside}


@pytest.mark.parametrize("count", [0, 1, 1_000, 1_001, 2_500])
async def test_many_records_are_written_as_few_are(count: int) -> None:
    records = [Leaf(datetime(2026, 1, 31, tzinfo=UTC) + timedelta(minutes=number), "é") for number in range(count)]
    assert to_json(await list_to_json(records)) == to_json(records)
