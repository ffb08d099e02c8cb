"""Columns for charts: several metrics of a plant in the same buckets."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.partners.key_text import make_key
from gridfleet.domains.telemetry.history import columns
from gridfleet.domains.telemetry.history.models import ColumnBucket
from gridfleet.domains.telemetry.history.values import store
from gridfleet.domains.telemetry.rollups.recomputation import close_hour, roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import format_time
from support.builders.accounts import add_user
from support.builders.telemetry_records import RecordedPlant, add_plant
from support.clients.plant_reader import PlantReader

DAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=30)
"""Not long ago: a roll-up closes every hour since then."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
FAR_AHEAD = timedelta(hours=-30)
"""A grace that closes hours before they have begun."""


class Reader(PlantReader):
    """A VIEWER and the plant they may read."""

    async def ask(self, *metrics: str, start: datetime = DAY, end: datetime = DAY + HOUR, **query: Any) -> httpx.Response:
        """The response to a query of columns of the plant."""
        given = {"plantId": str(self.plant.id), "from": format_time(start), "to": format_time(end), "metrics": list(metrics)}
        return await self.service.client.get("/api/v1/telemetry/columns", params={**given, **query}, headers=self.headers)

    async def columns(self, *metrics: str, **query: Any) -> dict[str, Any]:
        """The columns of a query that is accepted."""
        answer = await self.ask(*metrics, **query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def set_interval(self, seconds: float, device: str | None = None) -> None:
        """Set the usual interval of the plant or of a device."""
        async with self.service.state.database.transaction() as db:
            if device is None:
                await db.execute("UPDATE plant SET usual_interval_seconds = %s WHERE id = %s", (seconds, self.plant.id))
            else:
                await db.execute(
                    "UPDATE sub_device SET usual_interval_seconds = %s WHERE plant_id = %s AND external_id = %s",
                    (seconds, self.plant.id, device),
                )


@pytest.fixture
async def reader(database_url: str, home: Path) -> AsyncIterator[Reader]:
    async with Reader.open(database_url, home) as opened:
        yield opened


def complaints(answer: httpx.Response, code: str = "VALIDATION_ERROR") -> list[str]:
    assert answer.json()["code"] == code, answer.text
    found: list[str] = answer.json()["details"]
    return found


async def test_metrics_of_several_devices_share_their_times(reader: Reader) -> None:
    plant = reader.plant
    for device in ("PV1", "BAT1"):
        await plant.add_device(device)
    await plant.write(None, ["frequency"], {DAY + 30 * MINUTE: [50.0]})
    await plant.write("PV1", [Metric("power", "kW"), Metric("t", "°C")], {DAY: [1.0, 20.0], DAY + MINUTE: [2.0, None]})
    await plant.write("BAT1", [Metric("power", "W")], {DAY + MINUTE: [7.0], DAY + 5 * MINUTE: [9.0]})
    found = await reader.columns("BAT1.power", "PV1.power", "nothing", "frequency", bucket="15 minutes")
    assert found == {
        "plantId": str(plant.id),
        "bucket": "15 minutes",
        "times": [format_time(DAY + 15 * number * MINUTE) for number in range(4)],
        "columns": [
            {
                "metric": "BAT1.power",
                "unit": "W",
                "average": [8.0, None, None, None],
                "min": [7.0, None, None, None],
                "max": [9.0, None, None, None],
            },
            {
                "metric": "PV1.power",
                "unit": "kW",
                "average": [1.5, None, None, None],
                "min": [1.0, None, None, None],
                "max": [2.0, None, None, None],
            },
            {"metric": "nothing", "unit": None, **dict.fromkeys(("average", "min", "max"), [None] * 4)},
            {"metric": "frequency", "unit": "kW", **{key: [None, None, 50.0, None] for key in ("average", "min", "max")}},
        ],
    }


async def test_a_range_between_buckets_counts_only_its_own_values(reader: Reader) -> None:
    await reader.plant.write(None, ["a"], {DAY + number * MINUTE: [float(number)] for number in range(40)})
    found = await reader.columns("a", bucket="15 minutes", start=DAY + 10 * MINUTE, end=DAY + 31 * MINUTE)
    assert found["times"] == [format_time(DAY + 15 * number * MINUTE) for number in range(3)]
    assert found["columns"][0]["min"] == [10.0, 15.0, 30.0]
    assert found["columns"][0]["max"] == [14.0, 29.0, 30.0]


@pytest.mark.parametrize(
    ("span", "points", "bucket"),
    [
        (timedelta(hours=1), None, "10 seconds"),
        (timedelta(hours=1), 360, "10 seconds"),
        (timedelta(hours=1), 359, "30 seconds"),
        (timedelta(days=1), None, "2 minutes"),
        (timedelta(days=1), 10_000, "10 seconds"),
        (timedelta(days=7), None, "15 minutes"),
        (timedelta(days=365), 1_000, "12 hours"),
        (timedelta(days=3_650), 1_000, "7 days"),
        (timedelta(seconds=1), 1, "10 seconds"),
    ],
)
async def test_the_narrowest_bucket_that_fits_is_chosen(
    reader: Reader, span: timedelta, points: int | None, bucket: str
) -> None:
    query = {} if points is None else {"points": points}
    found = await reader.columns("a", start=DAY, end=DAY + span, **query)
    assert found["bucket"] == bucket
    assert 1 <= len(found["times"]) <= (points or 1_000)
    assert found["columns"][0]["average"] == [None] * len(found["times"])


async def test_buckets_are_not_so_narrow_that_a_device_seems_silent(reader: Reader) -> None:
    await reader.plant.add_device("PV1")
    await reader.set_interval(20)
    await reader.set_interval(300, "PV1")
    for metrics, bucket in [(("a",), "1 minute"), (("PV1.a",), "10 minutes"), (("PV1.a", "a"), "1 minute")]:
        assert (await reader.columns(*metrics))["bucket"] == bucket
        assert (await reader.columns(*metrics, bucket="10 seconds"))["bucket"] == "10 seconds"
    await reader.set_interval(1e9)
    assert (await reader.columns("a"))["bucket"] == "30 days"


async def test_a_bucket_that_is_still_kept_is_chosen(reader: Reader) -> None:
    await reader.plant.write(None, ["a"], {DAY: [1.0]})
    async with reader.service.state.database.transaction() as db:
        await db.execute("UPDATE telemetry_source SET raw_from = %s, minutes_from = %s", (DAY + HOUR, DAY + HOUR))
    assert (await reader.columns("a", start=DAY, end=DAY + HOUR))["bucket"] == "15 minutes"
    assert (await reader.columns("a", start=DAY + HOUR, end=DAY + 2 * HOUR))["bucket"] == "10 seconds"


async def test_an_edited_unit_has_a_column_of_its_own_where_it_has_values(reader: Reader) -> None:
    await reader.plant.write(None, [Metric("p", "W")], {DAY: [700.0]})
    await reader.plant.write(None, [Metric("p", "kW")], {DAY + HOUR: [0.9]})
    both = await reader.columns("p", end=DAY + 2 * HOUR, bucket="1 hour")
    assert [(column["unit"], column["average"]) for column in both["columns"]] == [("kW", [None, 0.9]), ("W", [700.0, None])]
    new = await reader.columns("p", start=DAY + HOUR, end=DAY + 2 * HOUR, bucket="1 hour")
    assert [(column["unit"], column["average"]) for column in new["columns"]] == [("kW", [0.9])]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"metrics": []}, ["metrics: is required"]),
        ({"metrics": ["a", "b", "a"]}, ["metrics: must not name a metric twice"]),
        ({"metrics": [f"m{number}" for number in range(21)]}, ["metrics: must have at most 20 items"]),
        (
            {"metrics": ["", "x" * 201]},
            ["metrics.0: must have at least 1 character", "metrics.1: must have at most 200 characters"],
        ),
        ({"points": 0}, ["points: must be an integer >= 1"]),
        ({"points": 10_001}, ["points: must be an integer <= 10000"]),
        ({"points": 10, "bucket": "1 hour"}, ["points: must not be given together with bucket"]),
        ({"from": "x", "points": "y"}, ["from: must be a date-time with offset", "points: must be an integer <= 10000"]),
        ({"metric": "a"}, ["metric: is not a known field (did you mean metrics?)"]),
        ({"from": format_time(DAY + HOUR)}, ["from: must be before to"]),
    ],
)
async def test_every_error_is_named(reader: Reader, query: dict[str, Any], found: list[str]) -> None:
    given = complaints(await reader.ask("a", **query))
    assert [complaint.split(":")[0] for complaint in given] == [complaint.split(":")[0] for complaint in found]


async def test_an_unknown_bucket_is_refused(reader: Reader) -> None:
    (complaint,) = complaints(await reader.ask("a", bucket="7 minutes"))
    assert complaint.startswith("bucket: must be one of 10 seconds, 30 seconds, 1 minute")


async def test_columns_times_buckets_are_limited_and_a_bucket_that_fits_is_named(reader: Reader) -> None:
    metrics = [f"m{number}" for number in range(20)]
    week = {"start": DAY, "end": DAY + timedelta(days=7)}
    assert complaints(await reader.ask(*metrics, bucket="1 minute", **week)) == ["bucket: ask for 10 minutes"]
    assert len((await reader.columns(*metrics, bucket="10 minutes", **week))["times"]) == 7 * 24 * 6
    chosen = await reader.columns(*metrics, points=10_000, **week)
    assert (chosen["bucket"], len(chosen["times"]) * 20 <= 40_000) == ("10 minutes", True)


async def test_a_range_that_no_bucket_fits_is_refused(reader: Reader) -> None:
    century = {"start": datetime(1950, 1, 1, tzinfo=UTC), "end": datetime(2199, 1, 1, tzinfo=UTC)}
    assert complaints(await reader.ask("a", points=10, **century)) == ["points: must be at least 2789 for this range"]
    assert (await reader.columns("a", points=2_789, **century))["bucket"] == "30 days"
    metrics = [f"m{number}" for number in range(20)]
    for bucket in (None, "30 days"):
        query: dict[str, Any] = century if bucket is None else {**century, "bucket": bucket}
        assert complaints(await reader.ask(*metrics, **query)) == ["from: ask for a shorter range, or fewer metrics"]


async def key_headers(reader: Reader, scopes: Sequence[str], allowed: Sequence[Any] | None) -> dict[str, str]:
    """Headers of a new key of the reader's organisation."""
    database, key = reader.service.state.database, make_key()
    maker = await add_user(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost, created_by,"
            " activated_at, allowed_plant_ids) VALUES (%s, %s, 'K', 'p', %s, %s, %s, '-', %s, now(), %s)",
            (new_id(), reader.plant.organization_id, key.prefix, key.digest, list(scopes), maker.id, allowed),
        )
    return {"x-api-key": key.text}


async def test_keys_read_the_plants_that_they_may(reader: Reader) -> None:
    plant, service = reader.plant, reader.service
    await plant.write(None, ["a"], {DAY: [1.0]})
    hidden = await add_plant(service.state.database, plant.organization_id)
    stranger = await RecordedPlant.create(service.state.database)
    for scopes, allowed, asked, expected in [
        (["telemetry:read"], None, plant.id, None),
        (["telemetry:read"], [plant.id], plant.id, None),
        (["telemetry:read"], [plant.id], hidden, "PLANT_NOT_FOUND"),
        (["telemetry:read"], None, stranger.id, "PLANT_NOT_FOUND"),
        (["plants:read"], None, plant.id, "FORBIDDEN"),
    ]:
        headers = await key_headers(reader, scopes, allowed)
        answer = await Reader(service, plant, headers).ask("a", plantId=str(asked))
        assert answer.json().get("code") == expected
        if expected is None:
            assert answer.json()["columns"][0]["max"][0] == 1.0


async def test_large_columns_equal_small_ones(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above some size the text is written in a thread."""
    await reader.plant.write(
        None, ["a", "b"], {DAY + number * timedelta(seconds=10): [number / 3, 1.0] for number in range(360)}
    )
    small = await reader.columns("a", "b", bucket="10 seconds")
    monkeypatch.setattr(columns, "MOST_IN_LOOP", 1)
    assert await reader.columns("a", "b", bucket="10 seconds") == small
    assert len(small["times"]) == 360
    assert None not in small["columns"][0]["average"]


def start_of(time: datetime, bucket: ColumnBucket) -> datetime:
    return time - (time - EPOCH) % bucket.width


def expected_columns(
    truth: dict[str, dict[datetime, float]], metrics: Sequence[str], bucket: ColumnBucket, start: datetime, end: datetime
) -> tuple[list[str], list[tuple[list[float | None], list[float | None], list[float | None]]]]:
    """What the columns must be, computed from every value."""
    times, time = [], start_of(start, bucket)
    while time < end:
        times.append(time)
        time += bucket.width
    found: list[tuple[list[float | None], list[float | None], list[float | None]]] = []
    for metric in metrics:
        inside: dict[datetime, list[float]] = {}
        for moment, value in truth.get(metric, {}).items():
            if start <= moment < end:
                inside.setdefault(start_of(moment, bucket), []).append(value)
        groups = [inside.get(time, []) for time in times]
        found.append(
            (
                [float(f"{sum(group) / len(group):.12g}") if group else None for group in groups],
                [min(group) if group else None for group in groups],
                [max(group) if group else None for group in groups],
            )
        )
    return [format_time(time) for time in times], found


@pytest.mark.parametrize("every", [1, 2])
async def test_many_times_with_values_of_two_layouts_take_few_statements(
    reader: Reader, database: Database, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """A plant that sent its past again after its template was edited has two layouts in each minute of it."""
    plant, day = reader.plant, DAY + timedelta(days=29)
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = %s", (day,))
    minutes = [day + number * MINUTE for number in range(0, 300, every)]
    await plant.write(None, ["a"], {time: [1.0] for time in minutes})
    await plant.write(None, ["a", "b"], {time: [3.0, 0.0] for time in minutes[1:]})
    for _ in range(6):
        await close_hour(database, FAR_AHEAD)
    await roll_up(database)
    statements = 0
    buckets = store.buckets

    async def counted(*arguments: Any) -> Any:
        nonlocal statements
        statements += 1
        return await buckets(*arguments)

    monkeypatch.setattr(store, "buckets", counted)
    found = await reader.columns("a", start=day, end=day + 5 * HOUR, bucket="10 minutes")
    assert found["columns"][0]["min"] == [1.0, *([3.0] * 29)]
    assert found["columns"][0]["max"] == [3.0] * 30
    assert statements < 60


@pytest.mark.parametrize("seed", range(3))
async def test_columns_equal_a_plain_computation(reader: Reader, database: Database, seed: int) -> None:
    """Random values, layouts, ranges, buckets and metrics; before, during and after roll-ups."""
    random, plant = Random(seed), reader.plant
    await plant.add_device("PV1")
    await plant.add_device("PV2")
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = %s", (DAY,))
    truth: dict[str, dict[datetime, float]] = {}
    for step in range(8):
        device = random.choice([None, "PV1", "PV2"])
        keys = random.choice([["a", "b"], [f"c{step}", f"d{step}"]])
        first = DAY + random.randrange(48 * 60) * MINUTE
        interval = random.choice([timedelta(seconds=10), MINUTE, 20 * MINUTE, 3 * HOUR])
        frames = {
            first + number * interval: [None if random.random() < 0.2 else random.randrange(-800, 800) / 8 for _ in keys]
            for number in range(random.randrange(1, 200))
        }
        await plant.write(device, keys, frames)
        for time, values in frames.items():
            for key, value in zip(keys, values, strict=True):
                name = key if device is None else f"{device}.{key}"
                if value is not None:
                    truth.setdefault(name, {})[time] = value
        if random.random() < 0.7:
            for _ in range(random.randrange(30)):
                await close_hour(database, FAR_AHEAD)
            await roll_up(database, seconds=random.choice([0.01, 5]))
    names = [*truth, "unknown", "PV9.a"]
    for _ in range(25):
        bucket = random.choice(list(ColumnBucket))
        metrics = random.sample(names, random.randint(1, min(6, len(names))))
        start = DAY + timedelta(seconds=random.randrange(3 * 24 * 3600))
        end = start + bucket.width * random.uniform(0.01, 400)
        if random.random() < 0.5:
            start = start_of(start, ColumnBucket.HOUR)
        times, found = expected_columns(truth, metrics, bucket, start, end)
        answer = await reader.columns(*metrics, start=start, end=end, bucket=bucket.value)
        assert answer["times"] == times
        assert [(c["average"], c["min"], c["max"]) for c in answer["columns"]] == found
        assert [c["metric"] for c in answer["columns"]] == metrics
