"""History on a real database: what is asked for, in order, whatever layouts and pages it is spread over."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from gridfleet.api.telemetry import written
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.telemetry.errors import MAX_POINTS, TooManyPoints
from gridfleet.domains.telemetry.history import buckets, queries, raw, series
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import Bucket, HistoryQuery, TelemetryPoint
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.domains.telemetry.history.values import store
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from support.builders.telemetry_records import RecordedPlant, allowed, member, reading_from

DAY = datetime(2026, 11, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    return await RecordedPlant.create(database)


async def text(
    database: Database, org: OrgScope, query: HistoryQuery, text_format: TextFormat = TextFormat.JSON, *, capped: bool = False
) -> bytes:
    """The whole answer, each page read in a transaction of its own."""
    writer = PointWriter(query.plant_id, text_format)
    history = await open_history(reading_from(database), org, query, capped=capped)
    pieces = [piece async for piece in written(history.pages(allowed), writer)]
    return b"".join(pieces)


async def ask(plant: RecordedPlant, start: datetime, end: datetime, **more: Any) -> list[TelemetryPoint]:
    answer = await text(plant.database, plant.org, HistoryQuery(plant.id, start, end, **more))
    return msgspec.json.decode(answer, type=list[TelemetryPoint])


def brief(points: list[TelemetryPoint]) -> list[tuple[datetime, str, float]]:
    return [(point.time, point.metric, point.value) for point in points]


async def test_raw_points_come_by_time_then_metric_with_unit_and_sub_device(plant: RecordedPlant) -> None:
    await plant.add_device("PV1")
    await plant.write(None, [Metric("frequency", "Hz"), Metric("door_open", "")], {DAY: [50.01, 0.0]})
    await plant.write("PV1", ["active_power"], {DAY: [4.25], DAY + MINUTE: [-0.1]})
    answer = await text(plant.database, plant.org, HistoryQuery(plant.id, DAY, DAY + 2 * MINUTE))
    common = {"plant_id": str(plant.id)}
    assert msgspec.json.decode(answer) == [
        {
            "time": "2026-11-20T00:00:00.000Z",
            **common,
            "metric": "PV1.active_power",
            "value": 4.25,
            "unit": "kW",
            "metadata": {"subDevice": "PV1"},
        },
        {"time": "2026-11-20T00:00:00.000Z", **common, "metric": "door_open", "value": 0.0, "unit": None, "metadata": {}},
        {"time": "2026-11-20T00:00:00.000Z", **common, "metric": "frequency", "value": 50.01, "unit": "Hz", "metadata": {}},
        {
            "time": "2026-11-20T00:01:00.000Z",
            **common,
            "metric": "PV1.active_power",
            "value": -0.1,
            "unit": "kW",
            "metadata": {"subDevice": "PV1"},
        },
    ]


async def test_the_range_includes_its_start_and_not_its_end(plant: RecordedPlant) -> None:
    await plant.write(None, ["p"], {DAY: [1.0], DAY + MINUTE: [2.0], DAY + 2 * MINUTE: [3.0]})
    assert [point.value for point in await ask(plant, DAY, DAY + 2 * MINUTE)] == [1.0, 2.0]
    assert [point.value for point in await ask(plant, DAY, DAY + 2 * MINUTE, metric="p")] == [1.0, 2.0]
    assert await ask(plant, DAY + 3 * MINUTE, DAY + 4 * MINUTE) == []


@pytest.mark.parametrize("metric", ["q", "PV1.q", "PV2.p", "", ".", "p.", ".p", "PV1.p.p", "%", "p'; --"])
async def test_a_metric_that_nothing_has_gives_nothing(plant: RecordedPlant, metric: str) -> None:
    await plant.add_device("PV1")
    await plant.write(None, ["p"], {DAY: [1.0]})
    await plant.write("PV1", ["p"], {DAY: [2.0]})
    assert await ask(plant, DAY, DAY + MINUTE, metric=metric) == []
    assert await ask(plant, DAY, DAY + MINUTE, metric=metric, bucket=Bucket.HOUR) == []


async def test_plant_and_sub_device_metrics_of_one_key_are_separate(plant: RecordedPlant) -> None:
    await plant.add_device("PV1")
    await plant.write(None, ["p"], {DAY: [1.0]})
    await plant.write("PV1", ["p"], {DAY: [2.0]})
    assert [point.value for point in await ask(plant, DAY, DAY + MINUTE, metric="p")] == [1.0]
    assert [point.value for point in await ask(plant, DAY, DAY + MINUTE, metric="PV1.p")] == [2.0]


async def test_values_outside_the_limits_are_flagged(plant: RecordedPlant) -> None:
    limited = [Metric("soc", "%", False, 0.0, 100.0), Metric("free", ""), Metric("low", "", False, 5.0, None)]
    await plant.write(None, limited, {DAY: [100.0, 1e9, 5.0], DAY + MINUTE: [100.5, -1e9, 4.9]})
    expected = [{}, {}, {}, {}, {"outOfRange": True}, {"outOfRange": True}]
    assert [point.metadata for point in await ask(plant, DAY, DAY + 2 * MINUTE)] == expected
    assert [point.metadata for point in await ask(plant, DAY, DAY + 2 * MINUTE, metric="soc")] == [{}, {"outOfRange": True}]


async def test_missing_values_are_left_out(plant: RecordedPlant) -> None:
    await plant.write(None, ["a", "b"], {DAY: [None, 1.0], DAY + MINUTE: [2.0, None]})
    points = await ask(plant, DAY, DAY + 2 * MINUTE)
    assert brief(points) == [(DAY, "b", 1.0), (DAY + MINUTE, "a", 2.0)]
    assert [point.value for point in await ask(plant, DAY, DAY + 2 * MINUTE, metric="a")] == [2.0]


async def test_the_newer_layout_wins_where_two_hold_a_metric_at_one_time(plant: RecordedPlant) -> None:
    await plant.write(None, ["a", "b"], {DAY: [1.0, 1.0], DAY + MINUTE: [1.0, 1.0]})
    await plant.write(None, ["b", "c", "a"], {DAY: [2.0, 2.0, None]})
    points = await ask(plant, DAY, DAY + 2 * MINUTE)
    expected = [(DAY, "a", 1.0), (DAY, "b", 2.0), (DAY, "c", 2.0), (DAY + MINUTE, "a", 1.0), (DAY + MINUTE, "b", 1.0)]
    assert brief(points) == expected
    for key in "abc":
        alone = await ask(plant, DAY, DAY + 2 * MINUTE, metric=key)
        assert brief(alone) == [point for point in expected if point[1] == key]
    (bucket,) = await ask(plant, DAY, DAY + 2 * MINUTE, metric="b", bucket=Bucket.HOUR)
    assert (bucket.value, bucket.metadata) == (1.5, {"min": 1.0, "max": 2.0, "count": 2})


async def test_an_edited_template_may_change_unit_and_limits(plant: RecordedPlant) -> None:
    await plant.write(None, [Metric("p", "W", False, None, 10.0)], {DAY: [500.0]})
    await plant.write(None, [Metric("p", "kW")], {DAY + MINUTE: [500.0]})
    points = await ask(plant, DAY, DAY + 2 * MINUTE, metric="p")
    assert [(point.unit, point.metadata) for point in points] == [("W", {"outOfRange": True}), ("kW", {})]


@pytest.mark.parametrize("rolled_up", [False, True])
async def test_buckets_of_an_edited_unit_keep_their_units_apart(plant: RecordedPlant, rolled_up: bool) -> None:
    await plant.write(None, [Metric("p", "W")], {DAY: [500.0], DAY + 2 * HOUR: [700.0]})
    await plant.write(None, [Metric("p", "kW"), Metric("q", "V")], {DAY + 2 * HOUR + MINUTE: [0.9, 1.0]})
    await plant.write(None, [Metric("p", "W"), Metric("r", "V")], {DAY + 2 * HOUR + 2 * MINUTE: [900.0, 1.0]})
    if rolled_up:
        async with plant.database.transaction() as db:
            await db.execute("UPDATE telemetry_seal SET sealed_before = %s", (DAY + 5 * HOUR,))
            await db.execute("INSERT INTO telemetry_dirty SELECT id, %s FROM telemetry_source", (DAY,))
            await db.execute("INSERT INTO telemetry_dirty SELECT id, %s FROM telemetry_source", (DAY + 2 * HOUR,))
        await roll_up(plant.database)
    points = await ask(plant, DAY, DAY + 4 * HOUR, metric="p", bucket=Bucket.HOUR)
    assert {(point.time - DAY, point.unit, point.value, point.metadata["count"]) for point in points} == {
        (0 * HOUR, "W", 500.0, 1),
        (2 * HOUR, "W", 800.0, 2),
        (2 * HOUR, "kW", 0.9, 1),
    }


async def test_history_outlives_its_sub_device_and_joins_the_next_of_its_name(plant: RecordedPlant) -> None:
    await plant.add_device("PV1")
    await plant.write("PV1", ["p"], {DAY: [1.0], DAY + MINUTE: [1.0]})
    await plant.delete_device("PV1")
    assert [point.value for point in await ask(plant, DAY, DAY + 2 * MINUTE)] == [1.0, 1.0]
    await plant.add_device("PV1")
    await plant.write("PV1", ["p"], {DAY + MINUTE: [2.0], DAY + 2 * MINUTE: [2.0]})
    for points in (await ask(plant, DAY, DAY + 3 * MINUTE), await ask(plant, DAY, DAY + 3 * MINUTE, metric="PV1.p")):
        assert brief(points) == [(DAY, "PV1.p", 1.0), (DAY + MINUTE, "PV1.p", 2.0), (DAY + 2 * MINUTE, "PV1.p", 2.0)]
    (bucket,) = await ask(plant, DAY, DAY + 3 * MINUTE, metric="PV1.p", bucket=Bucket.HOUR)
    assert (bucket.value, bucket.metadata["count"]) == (pytest.approx(5 / 3), 3)


async def test_a_bucket_holds_only_what_is_inside_the_range(plant: RecordedPlant) -> None:
    await plant.write(None, [Metric("p", "kW")], {DAY + n * MINUTE: [float(n)] for n in range(40)})
    points = await ask(plant, DAY + 10 * MINUTE, DAY + 31 * MINUTE, metric="p", bucket=Bucket.QUARTER_HOUR)
    assert [(point.time, point.value, point.metadata) for point in points] == [
        (DAY, 12.0, {"min": 10.0, "max": 14.0, "count": 5}),
        (DAY + 15 * MINUTE, 22.0, {"min": 15.0, "max": 29.0, "count": 15}),
        (DAY + 30 * MINUTE, 30.0, {"min": 30.0, "max": 30.0, "count": 1}),
    ]
    assert {point.unit for point in points} == {"kW"}


async def test_averages_of_huge_values_do_not_overflow(plant: RecordedPlant) -> None:
    await plant.write(None, ["a", "b"], {DAY: [1.7e308, 1e-200], DAY + MINUTE: [1.7e308, 3e-200]})
    a, b = await ask(plant, DAY, DAY + 2 * MINUTE, bucket=Bucket.HOUR)
    assert (a.value, b.value) == (1.7e308, 2e-200)
    (alone,) = await ask(plant, DAY, DAY + 2 * MINUTE, bucket=Bucket.HOUR, metric="a")
    assert alone.value == 1.7e308


async def test_another_organisations_plant_and_a_hidden_one_are_not_found(plant: RecordedPlant) -> None:
    other = await RecordedPlant.create(plant.database)
    await plant.write(None, ["p"], {DAY: [1.0]})
    query = HistoryQuery(plant.id, DAY, DAY + MINUTE)
    for org in (other.org, member(plant.organization_id, frozenset({other.id}))):
        with pytest.raises(PlantNotFound):
            await text(plant.database, org, query)
    with pytest.raises(PlantNotFound):
        await text(plant.database, plant.org, HistoryQuery(new_id(), DAY, DAY + MINUTE))
    assert await text(plant.database, member(plant.organization_id, frozenset({plant.id})), query) != b"[]"


@pytest.mark.parametrize("end", [DAY, DAY - MINUTE, datetime(2026, 11, 20, 2, tzinfo=UTC) - timedelta(hours=3)])
async def test_an_empty_range_is_refused(plant: RecordedPlant, end: datetime) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        await ask(plant, DAY, end)
    assert refusal.value.details == ["from: must be before to"]


async def test_a_range_of_all_time_is_answered(plant: RecordedPlant) -> None:
    await plant.write(None, ["p"], {DAY: [1.0]})
    start, end = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    for more in ({}, {"metric": "p"}, {"bucket": Bucket.MINUTE}, {"bucket": Bucket.DAY, "metric": "p"}):
        assert len(await ask(plant, start, end, **more)) == 1
    assert await ask(await RecordedPlant.create(plant.database), start, end, bucket=Bucket.MINUTE) == []


@pytest.mark.parametrize("every", [timedelta(days=30), timedelta(minutes=15)])
async def test_sparse_values_are_read_in_few_pages(
    plant: RecordedPlant, monkeypatch: pytest.MonkeyPatch, every: timedelta
) -> None:
    """A range with more possible buckets than a page holds, of which few have values."""
    reads: list[datetime] = []

    async def read_buckets(db: Any, series: Any, bucket: Bucket, start: datetime, end: datetime) -> Any:
        reads.append(start)
        return await buckets_between_pages(db, series, bucket, start, end)

    buckets_between_pages = buckets.read_buckets
    monkeypatch.setattr(buckets, "read_buckets", read_buckets)
    monkeypatch.setattr(buckets, "PAGE_POINTS", 200)
    metrics = [f"m{number}" for number in range(50)]
    frames = {DAY + number * every: [float(number)] * 50 for number in range(20)}
    await plant.write(None, metrics, frames)

    found = await ask(plant, DAY, DAY + 20 * every, bucket=Bucket.MINUTE)

    assert brief(found) == [(time, metric, values[0]) for time, values in frames.items() for metric in sorted(metrics)]
    assert len(reads) <= 11


@pytest.mark.parametrize("devices", [[None], ["D1", "SILENT"]])
async def test_a_count_that_needs_too_many_statements_is_refused(
    plant: RecordedPlant, monkeypatch: pytest.MonkeyPatch, devices: list[str | None]
) -> None:
    """Frequent frames of few values: the count before a JSON answer took hours, in one transaction."""
    read: list[int] = []

    async def recorded(db: Any, source_id: int, *more: Any) -> Any:
        read.append(source_id)
        return await wide_buckets(db, source_id, *more)

    wide_buckets = store.wide_buckets
    monkeypatch.setattr(store, "wide_buckets", recorded)
    monkeypatch.setattr(buckets, "PAGE_POINTS", 200)
    monkeypatch.setattr(buckets, "MOST_STATEMENTS", 1_000, raising=False)
    monkeypatch.setattr(queries, "MAX_POINTS", 2_500)
    metrics = [f"m{number}" for number in range(50 // len(devices))]
    for device in devices:
        if device is not None:
            await plant.add_device(device)
    rest = [None] * (len(metrics) - 1)
    await plant.write(devices[0], metrics, {DAY + n * MINUTE: [1.0, *rest] for n in range(600)})
    if len(devices) > 1:
        await plant.write(devices[1], metrics, {DAY - HOUR: [1.0, *rest]})

    query = HistoryQuery(plant.id, DAY, DAY + 600 * MINUTE, bucket=Bucket.MINUTE)
    with pytest.raises(TooManyPoints, match="take too long to count") as refusal:
        await text(plant.database, plant.org, query, capped=True)

    assert refusal.value.details == ["bucket: ask for 15 minutes"]
    assert len(read) <= 40
    wider = replace(query, bucket=Bucket.QUARTER_HOUR)
    answer = msgspec.json.decode(await text(plant.database, plant.org, wider, capped=True), type=list[TelemetryPoint])
    assert [point.value for point in answer] == [1.0] * 40


class TestCap:
    """More points than a JSON answer may have, with the cap brought down so that few are enough."""

    @pytest.fixture(autouse=True)
    async def _few(self, plant: RecordedPlant, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queries, "MAX_POINTS", 60)
        monkeypatch.setattr(raw, "PAGE_POINTS", 20)
        monkeypatch.setattr(buckets, "PAGE_POINTS", 20)
        frames = {DAY + n * MINUTE: [float(n), None if n % 2 else 1.0] for n in range(60)}
        await plant.write(None, ["a", "b"], frames)

    async def refusal(self, plant: RecordedPlant, **more: Any) -> list[str]:
        query = HistoryQuery(plant.id, DAY, DAY + timedelta(days=1), **more)
        with pytest.raises(TooManyPoints) as refusal:
            await text(plant.database, plant.org, query, capped=True)
        return refusal.value.details

    async def test_as_many_as_allowed_are_answered(self, plant: RecordedPlant) -> None:
        query = HistoryQuery(plant.id, DAY, DAY + 60 * MINUTE, "a")
        assert len(msgspec.json.decode(await text(plant.database, plant.org, query, capped=True))) == 60
        query = HistoryQuery(plant.id, DAY, DAY + 40 * MINUTE)
        assert len(msgspec.json.decode(await text(plant.database, plant.org, query, capped=True))) == 60

    async def test_more_are_refused_and_a_fitting_bucket_named(self, plant: RecordedPlant) -> None:
        assert await self.refusal(plant) == ["bucket: ask for 5 minutes"]
        await plant.write(None, ["a", "b"], {DAY + 60 * MINUTE: [1.0, None]})
        assert await self.refusal(plant, metric="a") == ["bucket: ask for 5 minutes"]

    async def test_buckets_are_counted_too(self, plant: RecordedPlant) -> None:
        assert await self.refusal(plant, bucket=Bucket.MINUTE) == ["bucket: ask for 5 minutes"]

    async def test_where_no_bucket_fits_the_range_must_shrink(self, plant: RecordedPlant) -> None:
        await plant.write(None, ["a", "b"], {DAY + timedelta(days=n): [1.0, 1.0] for n in range(1, 31)})
        query = HistoryQuery(plant.id, DAY, DAY + timedelta(days=40), bucket=Bucket.DAY)
        with pytest.raises(TooManyPoints) as refusal:
            await text(plant.database, plant.org, query, capped=True)
        assert refusal.value.details == ["from: ask for a shorter range, or name one metric"]

    async def test_exports_have_no_cap(self, plant: RecordedPlant) -> None:
        query = HistoryQuery(plant.id, DAY, DAY + timedelta(days=1))
        lines = (await text(plant.database, plant.org, query, TextFormat.CSV)).decode().splitlines()
        assert lines[:3] == [
            "time,plant_id,metric,value,unit",
            f"2026-11-20T00:00:00.000Z,{plant.id},a,0.0,kW",
            f"2026-11-20T00:00:00.000Z,{plant.id},b,1.0,kW",
        ]
        assert len(lines) == 91
        lines = (await text(plant.database, plant.org, query, TextFormat.NDJSON)).decode().splitlines()
        as_json = msgspec.json.decode(await text(plant.database, plant.org, query))
        assert [msgspec.json.decode(line) for line in lines] == as_json


def test_the_cap_is_half_a_million() -> None:
    assert MAX_POINTS == 500_000


KEYS = [["a", "b"], ["b", "c", "a"], ["c"], ["d", "e"]]
"""The layouts of the property test."""


class Truth:
    """What the answers must be, worked out the slow way."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, datetime], dict[int, float]] = {}

    def add(self, device: str | None, layout: int, time: datetime, values: list[float | None]) -> None:
        """One frame; of the same metric and time the value of the latest made layout counts."""
        for key, value in zip(KEYS[layout], values, strict=True):
            if value is not None:
                metric = key if device is None else f"{device}.{key}"
                self.values.setdefault((metric, time), {})[layout] = value

    def points(self, start: datetime, end: datetime, metric: str | None) -> Iterator[tuple[datetime, str, float]]:
        """Raw points in order."""
        for time, name in sorted((time, name) for name, time in self.values if start <= time < end and metric in (None, name)):
            by_layout = self.values[name, time]
            yield time, name, by_layout[max(by_layout)]

    def buckets(
        self, start: datetime, end: datetime, metric: str | None, bucket: Bucket
    ) -> list[tuple[datetime, str, float, dict[str, float]]]:
        """Buckets in order."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        groups: dict[tuple[datetime, str], list[float]] = {}
        for time, name, value in self.points(start, end, metric):
            groups.setdefault((epoch + (time - epoch) // bucket.width * bucket.width, name), []).append(value)
        return [
            (
                time,
                name,
                pytest.approx(sum(found) / len(found), abs=1e-6),
                {"min": min(found), "max": max(found), "count": len(found)},
            )
            for (time, name), found in sorted(groups.items())
        ]


@pytest.mark.slow
async def test_answers_equal_a_slow_computation(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random frames, layouts, gaps, order of arrival, ranges and page sizes."""
    random = Random(20261120)
    for _ in range(25):
        plant, truth = await RecordedPlant.create(database), Truth()
        devices = [None, "PV1", "GRID"][: random.randint(1, 3)]
        for device in devices[1:]:
            await plant.add_device(str(device))
        step = random.choice([1, 7, 60, 300])
        layouts = random.sample(range(len(KEYS)), random.randint(1, len(KEYS)))
        for layout in range(len(KEYS)):  # made in this order, so that a higher number is a newer layout
            await plant.layout(KEYS[layout])
        for device in devices:
            for layout in layouts:
                frames = []
                for place in random.sample(range(-20, 100), random.randint(1, 100)):
                    values = [None if random.random() < 0.2 else random.uniform(-9, 9) for _ in KEYS[layout]]
                    frames.append((DAY + timedelta(seconds=step * place), values))
                    truth.add(device, layout, *frames[-1])
                await plant.write(device, KEYS[layout], frames)
        for _ in range(12):
            start = DAY + timedelta(seconds=step * random.uniform(-30, 90))
            end = start + timedelta(seconds=step * random.uniform(0.001, 130))
            metric = random.choice([None, None, "a", "b", "PV1.a", "GRID.c", "PV1.e"])
            monkeypatch.setattr(raw, "PAGE_POINTS", random.choice([8, 30, 1_000]))
            monkeypatch.setattr(buckets, "PAGE_POINTS", random.choice([8, 30, 1_000]))
            assert brief(await ask(plant, start, end, metric=metric)) == list(truth.points(start, end, metric))
            bucket = random.choice(list(Bucket))
            answered = await ask(plant, start, end, metric=metric, bucket=bucket)
            found = [
                (point.time, point.metric, point.value, {k: v for k, v in point.metadata.items() if k != "subDevice"})
                for point in answered
            ]
            assert found == truth.buckets(start, end, metric, bucket)


async def test_more_layouts_than_are_remembered(plant: RecordedPlant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_CACHED", 0)
    for number, key in enumerate(("a", "b", "c")):
        await plant.write(None, [key], {DAY + number * MINUTE: [number]})
        async with plant.database.transaction() as db:
            assert [one.metric for one in await series.plant_series(db, plant.org, plant.id)] == ["a", "b", "c"][: number + 1]
