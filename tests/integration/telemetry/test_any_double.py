"""Every finite double is a value: the smallest, the largest and both signs are stored, rolled up and answered finitely."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import isfinite
from sys import float_info

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import Bucket, BucketPoint, HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.latest.queries import latest_points
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.db import Database
from support.builders.telemetry_records import RecordedPlant, reading_from

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DENORMAL = 5e-324
LARGEST = float_info.max
EXTREMES = [DENORMAL, -DENORMAL, 2e-314, float_info.min, -float_info.min, LARGEST, -LARGEST, 1e308, -1e308, 0.0, -0.0, 0.1]

doubles = st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False)


def a_past_day() -> datetime:
    """Midnight of a day whose hours have all been closed."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=3)


def modelled(values: dict[datetime, float], bucket: Bucket) -> dict[datetime, list[float]]:
    """The values of each bucket."""
    groups: dict[datetime, list[float]] = {}
    for time, value in values.items():
        groups.setdefault(time - (time - EPOCH) % bucket.width, []).append(value)
    return groups


def assert_fits(point: BucketPoint, values: list[float]) -> None:
    """Compares a bucket with exact arithmetic."""
    assert (point.minimum, point.maximum, point.size) == (min(values), max(values), len(values))
    assert isfinite(point.average)
    assert point.minimum <= point.average <= point.maximum
    exact = sum(map(Fraction, values)) / len(values)
    largest = max(abs(Fraction(value)) for value in values)
    assert abs(Fraction(point.average) - exact) <= abs(exact) / 10**11 + largest / 10**14 + Fraction(1e-303)


async def read(plant: RecordedPlant, bucket: Bucket, start: datetime) -> list[BucketPoint]:
    async with plant.database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id, "a")
        return await read_buckets(db, series, bucket, start, start + 24 * HOUR)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 24 * 60 - 1), doubles), min_size=1, max_size=12))
@example([(0, DENORMAL)])
@example([(0, LARGEST), (1, LARGEST), (2, LARGEST)])
@example([(0, -LARGEST), (1, -LARGEST), (90, -LARGEST)])
@example([(0, LARGEST), (1, -LARGEST), (2, DENORMAL)])
@example([(number, 0.1) for number in range(60)])
async def test_buckets_from_frames_and_from_roll_ups_fit_exact_arithmetic(
    database: Database, sent: list[tuple[int, float]]
) -> None:
    plant = await RecordedPlant.create(database)
    day = a_past_day()
    values = {day + minute * MINUTE: value for minute, value in sent}
    await plant.write(None, ["a", "b"], {time: [value, None] for time, value in values.items()})
    for rolled_up in (False, True):
        if rolled_up:
            await roll_up(database)
        for bucket in Bucket:
            expected = modelled(values, bucket)
            found = await read(plant, bucket, day)
            assert [point.time for point in found] == sorted(expected), rolled_up
            for point in found:
                assert_fits(point, expected[point.time])


async def test_averages_have_no_rounding_noise(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    day = a_past_day()
    values = [0.1, 0.2, 0.3]
    assert sum(values) / 3 != 0.2
    await plant.write(None, ["a"], {day + number * MINUTE: [value] for number, value in enumerate(values)})
    assert [point.average for point in await read(plant, Bucket.HOUR, day)] == [0.2]
    await plant.write(None, ["a"], {day + HOUR + number * MINUTE: [0.1234567890123456] for number in range(3)})
    assert [point.average for point in await read(plant, Bucket.HOUR, day)] == [0.2, 0.1234567890123456]


async def test_one_value_of_one_plant_holds_up_no_other(database: Database) -> None:
    day = a_past_day()
    small, usual = await RecordedPlant.create(database), await RecordedPlant.create(database)
    await small.write(None, ["a"], {day: [DENORMAL]})
    await usual.write(None, ["a"], {day: [4.0]})
    assert await roll_up(database) == 2
    async with database.transaction() as db:
        cursor = await db.execute("SELECT lows, highs FROM telemetry_day ORDER BY source_id")
        assert await cursor.fetchall() == [([DENORMAL], [DENORMAL]), ([4.0], [4.0])]


def numbers(pieces: Iterable[bytes], text_format: TextFormat) -> list[float]:
    """The values of an answer, read as strictly as a client would."""

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    text = b"".join(pieces).decode()
    if text_format is TextFormat.CSV:
        return [float(line.split(",")[3]) for line in text.splitlines()[1:]]
    points = (
        json.loads(text, parse_constant=refuse)
        if text_format is TextFormat.JSON
        else [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    )
    return [point["value"] for point in points]


@pytest.mark.parametrize("text_format", list(TextFormat))
@pytest.mark.parametrize("bucket", [None, *Bucket])
@pytest.mark.parametrize("metric", ["a", None])
async def test_every_double_is_answered_in_every_format(
    database: Database, text_format: TextFormat, bucket: Bucket | None, metric: str | None
) -> None:
    plant = await RecordedPlant.create(database)
    day = a_past_day()
    await plant.write(None, ["a", "b"], {day + number * MINUTE: [value, value] for number, value in enumerate(EXTREMES)})
    # An edited template: the series has two positions.
    await plant.write(None, ["a", "c"], {day + number * MINUTE: [value, value] for number, value in enumerate(EXTREMES)})
    query = HistoryQuery(plant.id, day, day + HOUR, metric, bucket)
    history = await open_history(reading_from(database), plant.org, query, capped=text_format is TextFormat.JSON)
    assert history.finished
    writer = PointWriter(plant.id, text_format)
    found = numbers([*writer.pieces(history.first), writer.finish()], text_format)
    assert all(map(isfinite, found))
    if bucket in (None, Bucket.MINUTE):
        assert found == [value for value in EXTREMES for _ in ("a" if metric else "abc")]


async def test_the_newest_value_may_be_any_double(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    names = [f"m{number}" for number in range(len(EXTREMES))]
    await plant.write(None, names, {a_past_day(): EXTREMES})
    async with database.transaction() as db:
        found = {point.metric: point.value for point in await latest_points(db, plant.org, plant.id)}
    assert found == dict(zip(names, EXTREMES, strict=True))
