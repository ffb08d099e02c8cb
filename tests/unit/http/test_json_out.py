"""Times in answers are UTC with milliseconds, whatever holds them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.api.http.json_out import build_writer
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


MOMENT = datetime(2026, 1, 1, 1, 2, 3, 456_789, timezone(timedelta(hours=1)))
SHOWN = "2026-01-01T00:02:03.456Z"


def test_times_are_found_in_every_kind_of_place() -> None:
    inner = Tree([], {}, None, ())
    tree = Tree(
        [Leaf(MOMENT), Leaf(None, "a")], {"x": Leaf(MOMENT)}, Tagged(MOMENT), (MOMENT,), inner, {"t": "2026-01-01T00:00:00Z"}
    )
    assert json.loads(build_writer(Tree)(tree)) == {
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
    assert build_writer(datetime)(aware) == f'"{format_time(aware)}"'.encode()
