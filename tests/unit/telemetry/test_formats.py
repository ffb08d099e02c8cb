"""Points as text."""

import csv
import io
from datetime import UTC, datetime, timedelta
from math import inf
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.api.telemetry import preferred_format
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import BucketPoint, Page, Series, SeriesPosition, SeriesValues, TelemetryPoint
from gridfleet.protocol.envelope import format_time

PLANT = UUID("018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d")
DAY = datetime(2026, 11, 20, tzinfo=UTC)


def series(unit: str | None = "kW", sub_device: str | None = "PV1", low: float = -inf, high: float = inf) -> Series:
    return Series("PV1.p" if sub_device else "p", sub_device, (SeriesPosition(1, 1, 0, unit, low, high),))


def written(text_format: TextFormat, *pages: Page) -> bytes:
    """The whole answer."""
    writer = PointWriter(PLANT, text_format)
    return b"".join([*(piece for page in pages for piece in writer.pieces(page)), writer.finish()])


moments = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(st.lists(st.tuples(moments, st.floats(allow_nan=False, allow_infinity=False)), unique_by=lambda pair: pair[0]))
def test_both_ways_of_writing_raw_points_agree_and_lose_nothing(points: list[tuple[datetime, float]]) -> None:
    one = series(low=-10.0, high=10.0)
    values = SeriesValues(one, [microseconds(time) for time, _ in points], [value for _, value in points])
    read = msgspec.json.decode(written(TextFormat.JSON, values))
    one_by_one = ((time, one, one.positions[0], value) for time, value in points)
    assert read == msgspec.json.decode(written(TextFormat.JSON, one_by_one))
    assert [(point["time"], point["value"]) for point in read] == [(format_time(time), value) for time, value in points]
    assert [point["metadata"].get("outOfRange", False) for point in read] == [not -10 <= value <= 10 for _, value in points]


@pytest.mark.parametrize("text_format", list(TextFormat))
def test_pages_join_whether_or_not_some_are_empty(text_format: TextFormat) -> None:
    one = series()
    pages: list[list[float]] = [[], [1.0, 2.0], [], [3.0], []]
    times = iter(range(10))
    text = written(text_format, *(SeriesValues(one, [next(times) for _ in page], page) for page in pages))
    if text_format is TextFormat.JSON:
        found = [point["value"] for point in msgspec.json.decode(text)]
    elif text_format is TextFormat.NDJSON:
        found = [msgspec.json.decode(line)["value"] for line in text.splitlines()]
    else:
        found = [float(row["value"]) for row in csv.DictReader(io.StringIO(text.decode()))]
    assert found == [1.0, 2.0, 3.0]


def test_an_answer_without_points_is_still_well_formed() -> None:
    for text_format, expected in (
        (TextFormat.JSON, b"[]"),
        (TextFormat.NDJSON, b""),
        (TextFormat.CSV, b"time,plant_id,metric,value,unit\n"),
    ):
        assert written(text_format, iter(())) == expected


def test_a_large_page_comes_in_pieces_that_join() -> None:
    one, count = series(), 10_001
    page = SeriesValues(one, range(count), [float(number) for number in range(count)])
    assert len(list(PointWriter(PLANT, TextFormat.JSON).pieces(page))) == 3
    assert [point["value"] for point in msgspec.json.decode(written(TextFormat.JSON, page, page))] == [
        *range(count),
        *range(count),
    ]


@pytest.mark.parametrize("unit", ["kW", None, "°C", 'a"b', "a,b", "\\", "€/kWh"])
@pytest.mark.parametrize("sub_device", ["PV1", None])
def test_units_survive_in_every_form(unit: str | None, sub_device: str | None) -> None:
    one = series(unit, sub_device)
    bucket = BucketPoint(DAY, one, 1.5, 1.0, 2.0, 2)
    raw, averaged = msgspec.json.decode(
        written(TextFormat.JSON, iter([(DAY, one, one.positions[0], 1.5)]), [bucket]),
        type=list[TelemetryPoint],
    )
    assert raw.unit == averaged.unit == unit
    assert averaged.metadata == {**raw.metadata, "min": 1.0, "max": 2.0, "count": 2}
    (row,) = csv.DictReader(io.StringIO(written(TextFormat.CSV, [bucket]).decode()))
    expected = {
        "time": "2026-11-20T00:00:00.000Z",
        "plant_id": str(PLANT),
        "metric": one.metric,
        "value": "1.5",
        "unit": unit or "",
    }
    assert row == expected


def test_times_are_cut_to_milliseconds() -> None:
    one = series()
    time = DAY + timedelta(microseconds=999_999)
    text = written(TextFormat.CSV, SeriesValues(one, [microseconds(time)], [1.0]))
    assert text.splitlines()[1].startswith(b"2026-11-20T00:00:00.999Z,")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", TextFormat.JSON),
        ("*/*", TextFormat.JSON),
        ("text/html, */*;q=0.8", TextFormat.JSON),
        ("text/csv", TextFormat.CSV),
        ("Text/CSV; charset=utf-8", TextFormat.CSV),
        ("application/x-ndjson", TextFormat.NDJSON),
        ("application/json, text/csv;q=0.5", TextFormat.JSON),
        ("application/json;q=0.1, text/csv;q=0.5", TextFormat.CSV),
        ("text/csv;q=0", TextFormat.JSON),
        ("text/csv;q=x", TextFormat.JSON),
    ],
)
def test_the_accept_header_chooses_the_form(accept: str, chosen: TextFormat) -> None:
    assert preferred_format(accept) is chosen
