"""Frames in the database against a plain model: any order, any repetition, any split into batches, the same result."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, microseconds, to_datetime
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache, Partitions, days_of, write_batch
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id

DAY = date(2026, 11, 20)
START = microseconds(datetime(2026, 11, 20, tzinfo=UTC))
WIDTH = 3

values = st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), min_size=WIDTH, max_size=WIDTH).filter(
    lambda vals: any(v is not None for v in vals)
)
frames = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), values, st.booleans()), min_size=1, max_size=25)

Model = dict[tuple[int, int], list[float | None]]


async def sources(database: Database, count: int) -> list[int]:
    async with database.transaction() as db:
        organization_id, plant_id = new_id(), new_id()
        await db.execute("INSERT INTO organization (id, name, slug) VALUES (%s, 'Test', %s)", (organization_id, plant_id.hex))
        await db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
            " VALUES (%s, %s, 'p', 's', 'GATEWAY', 'MTLS')",
            (plant_id, organization_id),
        )
        found = []
        for place in range(count):
            cursor = await db.execute(
                "INSERT INTO telemetry_source (organization_id, plant_id, external_id) VALUES (%s, %s, %s) RETURNING id",
                (organization_id, plant_id, f"D{place}"),
            )
            row = await cursor.fetchone()
            assert row is not None
            found.append(int(row[0]))
        return found


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames)
async def test_merging_is_the_same_in_any_split_and_repetition(
    database: Database, sent: list[tuple[int, int, list[float | None], bool]]
) -> None:
    source_ids = await sources(database, 2)
    async with database.transaction() as db:
        layout_id = await LayoutIdCache().id_of(db, FrameLayout(tuple(Metric(f"m{place}", "") for place in range(WIDTH))))
    await Partitions(database).ensure([DAY])

    stored: Model = {}
    newest: dict[tuple[int, int], tuple[int, float]] = {}
    batch = FrameBatch()
    for source, second, vals, split in sent:
        time = START + second * 1_000_000
        batch.add(source_ids[source], layout_id, time, vals)
        known = stored.setdefault((source, second), [None] * WIDTH)
        stored[source, second] = [old if new is None else new for new, old in zip(vals, known, strict=True)]
        for place, value in enumerate(vals):
            if value is not None and (time, 0) >= (newest.get((source, place), (0, 0.0))[0], 0):
                newest[source, place] = (time, value)
        if split:
            for _ in range(2):  # a redelivery changes nothing
                async with database.transaction() as db:
                    await write_batch(db, batch)
            batch = FrameBatch()
    async with database.transaction() as db:
        await write_batch(db, batch)

    async with database.transaction() as db:
        rows = await (
            await db.execute("SELECT source_id, time, vals FROM telemetry_frame WHERE source_id = ANY(%s)", (source_ids,))
        ).fetchall()
        latest = await (
            await db.execute(
                "SELECT source_id, time, vals, times FROM telemetry_latest WHERE source_id = ANY(%s)", (source_ids,)
            )
        ).fetchall()
    assert {(source_ids.index(s), (microseconds(t) - START) // 1_000_000): v for s, t, v in rows} == stored
    found = {
        (source_ids.index(source), place): (microseconds(times[place] if times else time), value)
        for source, time, vals, times in latest
        for place, value in enumerate(vals)
        if value is not None
    }
    assert found == newest


async def test_a_partition_is_made_for_any_day_and_only_once(database: Database) -> None:
    partitions, others = Partitions(database), Partitions(database)
    late = date(2025, 10, 30)

    await partitions.ensure([DAY, late])
    await others.ensure([late, DAY + timedelta(days=1)])

    source_ids = await sources(database, 1)
    async with database.transaction() as db:
        layout_id = await LayoutIdCache().id_of(db, FrameLayout((Metric("m", ""),)))
        batch = FrameBatch()
        for day in (DAY, late, DAY + timedelta(days=1)):
            batch.add(source_ids[0], layout_id, microseconds(datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC)), [1.0])
        assert days_of(batch) == {DAY, late, DAY + timedelta(days=1)}
        await write_batch(db, batch)
        cursor = await db.execute("SELECT count(*) FROM telemetry_frame")
        assert await cursor.fetchone() == (3,)


def test_times_survive_the_way_to_microseconds_and_back() -> None:
    moment = datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

    assert to_datetime(microseconds(moment)) == moment
    assert microseconds(moment) == -1


async def test_equal_layouts_share_an_id_and_others_do_not(database: Database) -> None:
    async with database.transaction() as db:
        first = await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "kW"),)))
        again = await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "kW"),)))
        other = await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "kW", minimum=0),)))
    assert first == again != other


async def test_looking_up_a_layout_takes_no_id(database: Database) -> None:
    async with database.transaction() as db:
        first = await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "kW"),)))
        for _ in range(10):
            await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "kW"),)))
        assert await LayoutIdCache().id_of(db, FrameLayout((Metric("m", "W"),))) == first + 1


async def test_a_process_keeps_the_newest_ids_of_layouts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of one plant with 100,000 new names, one for each layout, took 15 MB of the process for good."""
    monkeypatch.setattr("gridfleet.domains.telemetry.frames.writer.MOST_LAYOUTS", 2)
    looked_up: list[str] = []
    ensure_layout = store.ensure_layout

    async def recorded(db: Connection, layout: FrameLayout) -> int:
        looked_up.append(layout.metrics[0].key)
        return await ensure_layout(db, layout)

    monkeypatch.setattr(store, "ensure_layout", recorded)
    cache, ids = LayoutIdCache(), dict[str, set[int]]()
    async with database.transaction() as db:
        for key in "abbcbcab":
            ids.setdefault(key, set()).add(await cache.id_of(db, FrameLayout((Metric(key, ""),))))
    assert looked_up == ["a", "b", "c", "a", "b"]
    assert [len(found) for found in ids.values()] == [1, 1, 1]
