"""Retention: nothing is lost that is still served, and no organisation loses what others no longer keep."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.plants import store as plants
from gridfleet.domains.telemetry.energy.models import EnergyAmounts
from gridfleet.domains.telemetry.energy.periods import EnergyBucket
from gridfleet.domains.telemetry.energy.recomputation import keep_energy
from gridfleet.domains.telemetry.energy.series import EnergyQuery, energy_of_plant
from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.models import Bucket, BucketPoint, HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_device_history, open_history
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.retention import limits
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention, set_retention
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.recomputation import correct_watermark, roll_up
from gridfleet.jobs.schedule import build_app
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.settings import Settings
from support.builders.large_changes import end_large_changes
from support.builders.telemetry_records import RecordedPlant, add_plant, reading_from

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
DEPLOYMENT = Days(raw=10, minute=20, quarter=60)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def record(plant: RecordedPlant, *days_ago: int) -> None:
    for days in days_ago:
        first = TODAY - days * DAY
        await plant.write(None, ["a"], {first + number * 5 * MINUTE: [number / 8] for number in range(288)})


async def asked(plant: RecordedPlant, bucket: Bucket, days_ago: int) -> list[BucketPoint]:
    return await read(plant, bucket, TODAY - days_ago * DAY, DAY)


async def read(plant: RecordedPlant, bucket: Bucket, start: datetime, length: timedelta) -> list[BucketPoint]:
    async with plant.database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        return await read_buckets(db, series, bucket, start, start + length)


async def count(database: Database, table: str, source: int, before: datetime) -> int:
    column = "time" if table == "telemetry_frame" else "bucket"
    async with database.transaction() as db:
        cursor = await db.execute(f"SELECT count(*) FROM {table} WHERE source_id = %s AND {column} < %s", (source, before))
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def partitions(database: Database, table: str) -> int:
    async with database.transaction() as db:
        row = await (await db.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass", (table,))).fetchone()
    assert row is not None
    return int(row[0])


async def test_frames_go_after_they_are_rolled_up_and_answers_stay(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 2, 15, 30)
    before = {(bucket, days): await asked(plant, bucket, days) for bucket in Bucket for days in (2, 15, 30)}
    source = await plant.source(None)
    assert await apply_retention(database, DEPLOYMENT, utc_now())
    assert await count(database, "telemetry_frame", source, TODAY) == 3 * 288  # not rolled up yet: all stay
    await roll_up(database)
    assert await apply_retention(database, DEPLOYMENT, utc_now())
    assert await partitions(database, "telemetry_frame") == 1
    assert await count(database, "telemetry_frame", source, TODAY) == 288
    for (bucket, days), expected in before.items():
        narrow = bucket in (Bucket.MINUTE, Bucket.FIVE_MINUTES)
        assert len(expected) > 0
        found = await asked(plant, bucket, days)
        assert [point[2:] for point in found] == ([] if days == 30 and narrow else [point[2:] for point in expected])


@pytest.mark.parametrize("is_released", [True, False])
async def test_retention_waits_for_a_roll_up_that_takes_minutes(
    database: Database, home: Path, monkeypatch: pytest.MonkeyPatch, is_released: bool
) -> None:
    """It gave up after two seconds without a line in the log, and ran an hour later."""
    plant = await RecordedPlant.create(database)
    await record(plant, 15)
    await roll_up(database)
    monkeypatch.setattr(limits, "TRIES", 2)
    monkeypatch.setattr(limits, "PAUSE_SECONDS", 1.0)
    app = build_app(Settings(home=home, database_url=database.url, keys=f"1:{'11' * 32}", telemetry_raw_days=10), database)  # type: ignore[arg-type]
    with capture_logs() as lines:
        async with database.transaction() as db:
            await rollups.hold_still(db)
            task = asyncio.create_task(app.tasks["telemetry.apply_retention"](timestamp=0))
            if is_released:
                await asyncio.sleep(2.5)
            else:
                await task
        await task
    assert await count(database, "telemetry_frame", await plant.source(None), TODAY) == (0 if is_released else 288)
    assert [one["event"] for one in lines if one["log_level"] == "warning"] == (
        [] if is_released else ["retention not applied: roll-ups are being computed"]
    )


async def test_values_are_read_again_after_a_clock_that_was_ahead_is_corrected(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 2)
    await roll_up(database)
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = sealed_before + interval '400 days'")
    assert await apply_retention(database, DEPLOYMENT, utc_now() + 400 * DAY)

    now = utc_now()
    await plant.write(None, ["a"], {now: [5.0]})
    await correct_watermark(database)
    await roll_up(database)
    assert await apply_retention(database, DEPLOYMENT, now)
    for bucket in (Bucket.MINUTE, Bucket.QUARTER_HOUR, Bucket.HOUR):
        assert [point[2] for point in await read(plant, bucket, now - MINUTE, 2 * MINUTE)] == [5.0]


async def test_a_clock_that_is_behind_loses_no_energy(database: Database) -> None:
    """A machine that starts without a time server, long before the time of what it has stored."""
    plant, now = await RecordedPlant.create(database), utc_now()
    true_time, old = now + 100 * DAY, (now + 2 * HOUR).replace(minute=0, second=0, microsecond=0)
    await plant.add_device("PV1")
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = date_bin('1 hour', %s::timestamptz, 'epoch')", (true_time,))
    counter = [Metric("energy_produced", "kWh", counter=True)]
    await plant.write("PV1", counter, {old + number * 5 * MINUTE: [number] for number in range(12)})
    await plant.write("PV1", counter, {true_time: [500.0]})
    await roll_up(database)
    await keep_energy(database)
    assert await apply_retention(database, DEPLOYMENT, true_time)
    query = EnergyQuery(old, old + HOUR, EnergyBucket.HOUR, "UTC")
    kept = await energy_of(plant, query, true_time)
    assert kept.produced == 11

    await correct_watermark(database)
    await apply_retention(database, DEPLOYMENT, now)
    async with database.transaction() as db:  # the clock is right again: hours are closed until the present
        for _ in range(4):
            await rollups.advance_watermark(db)
    await roll_up(database)
    await keep_energy(database)

    assert await energy_of(plant, query, true_time) == kept
    async with database.transaction() as db:
        row = await (await db.execute("SELECT sealed_before > %s FROM telemetry_seal", (true_time - DAY,))).fetchone()
    assert row == (True,), "no hour was opened again"


async def energy_of(plant: RecordedPlant, query: EnergyQuery, now: datetime) -> EnergyAmounts:
    async with plant.database.transaction() as db:
        return (await energy_of_plant(db, plant.org, plant.id, query, now)).total


async def test_late_frames_of_a_day_that_is_gone_do_not_replace_its_roll_ups(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 15)
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    expected = [point[2:] for point in await asked(plant, Bucket.DAY, 15)]
    await plant.write(None, ["a"], {TODAY - 15 * DAY + 3 * MINUTE: [1e6]})
    assert [point[2:] for point in await asked(plant, Bucket.DAY, 15)] == expected
    await roll_up(database)
    assert [point[2:] for point in await asked(plant, Bucket.DAY, 15)] == expected
    await apply_retention(database, DEPLOYMENT, utc_now())
    assert await count(database, "telemetry_frame", await plant.source(None), TODAY) == 0


async def test_late_frames_make_no_partitions_of_days_that_are_gone(database: Database) -> None:
    """Retention drops them every hour, and all readers wait for each drop. A gateway may send old values again and again."""
    plant = await RecordedPlant.create(database)
    await record(plant, 1)
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    before = await partitions(database, "telemetry_frame")
    late = {TODAY - days * DAY + 3 * MINUTE: [float(days)] for days in (300, 40, 11, 5)}
    await plant.write(None, ["a"], late)
    assert await partitions(database, "telemetry_frame") == before + 1, "the fifth day"
    await roll_up(database)
    assert [(await asked(plant, Bucket.HOUR, days))[:1] == [] for days in (40, 11, 5)] == [True, True, False]

    await plant.add_device("NEW")
    await plant.write("NEW", ["a"], late)
    assert await partitions(database, "telemetry_frame") == before + 4, "the first values of a new source are rolled up"


async def test_late_values_make_no_partitions_that_retention_drops_again(database: Database) -> None:
    """All readers of minutes wait while one is dropped, and a plant that was away sends values of a hundred days."""
    plant = await RecordedPlant.create(database)
    await record(plant, 1)
    await roll_up(database)
    deployment = Days(raw=100, minute=20, quarter=60)
    await apply_retention(database, deployment, utc_now())
    tables = ("telemetry_minute", "telemetry_quarter")
    before = [await partitions(database, table) for table in tables]
    await plant.write(None, ["a"], {TODAY - days * DAY + 3 * MINUTE: [float(days)] for days in range(95, 70, -1)})
    await roll_up(database)
    assert [await partitions(database, table) for table in tables] == before
    await plant.write(None, ["a"], {TODAY - days * DAY + 3 * MINUTE: [float(days)] for days in (19, 30)})
    await roll_up(database)
    assert await partitions(database, "telemetry_minute") == before[0] + 1
    for bucket in (Bucket.MINUTE, Bucket.QUARTER_HOUR, Bucket.HOUR, Bucket.DAY):
        assert [(await asked(plant, bucket, days))[0].average for days in (19, 30, 71, 95)] == [19.0, 30.0, 71.0, 95.0]


async def test_a_new_source_makes_no_partitions_that_retention_drops_again(database: Database) -> None:
    """A plant that is connected for the first time sends what it has measured in a year."""
    plant = await RecordedPlant.create(database)
    await record(plant, 1)
    await roll_up(database)
    await apply_retention(database, Days(raw=100, minute=20, quarter=60), utc_now())
    tables = ("telemetry_minute", "telemetry_quarter")
    before = [await partitions(database, table) for table in tables]
    other = RecordedPlant(database, plant.organization_id, await add_plant(database, plant.organization_id))
    await plant.add_device("D")
    for new, device in ((other, None), (plant, "D")):
        await new.write(device, ["a"], {TODAY - days * DAY + 3 * MINUTE: [float(days)] for days in range(95, 70, -1)})
        await roll_up(database)
        assert [await partitions(database, table) for table in tables] == before
    for bucket in (Bucket.MINUTE, Bucket.QUARTER_HOUR, Bucket.HOUR, Bucket.DAY):
        assert [(await asked(other, bucket, days))[0].average for days in (71, 95)] == [71.0, 95.0]


async def test_an_organisation_may_keep_more_or_less_than_the_others(database: Database) -> None:
    longer, usual, shorter = [await RecordedPlant.create(database) for _ in range(3)]
    for plant in (longer, usual, shorter):
        await record(plant, 5, 15)
    await roll_up(database)
    async with database.transaction() as db:
        slugs = {}
        for plant in (longer, shorter):
            cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (plant.organization_id,))
            slugs[plant.id] = ((await cursor.fetchone()) or ("",))[0]
        await set_retention(db, slugs[longer.id], raw_days=100, minute_days=None, quarter_days=None)
        await set_retention(db, slugs[shorter.id], raw_days=3, minute_days=3, quarter_days=None)
        with pytest.raises(LookupError):
            await set_retention(db, "nobody", raw_days=1, minute_days=None, quarter_days=None)
    await apply_retention(database, DEPLOYMENT, utc_now())
    left = {
        plant.id: await count(database, "telemetry_frame", await plant.source(None), TODAY)
        for plant in (longer, usual, shorter)
    }
    assert left == {longer.id: 576, usual.id: 288, shorter.id: 0}
    minutes = {
        plant.id: await count(database, "telemetry_minute", await plant.source(None), TODAY)
        for plant in (longer, usual, shorter)
    }
    assert minutes == {longer.id: 576, usual.id: 576, shorter.id: 0}
    for plant in (longer, usual, shorter):
        (day,) = await asked(plant, Bucket.DAY, 15)
        assert day.size == 288


async def test_a_new_source_keeps_minutes_although_a_plant_moved_in_that_kept_fewer(database: Database) -> None:
    usual, *moved = [await RecordedPlant.create(database) for _ in range(6)]
    for plant in (usual, *moved):
        await record(plant, 2)
    async with database.transaction() as db:
        for plant in moved:
            cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (plant.organization_id,))
            ((slug,),) = await cursor.fetchall()
            await set_retention(db, slug, raw_days=10, minute_days=3, quarter_days=3)
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    async with database.transaction() as db:
        for plant in moved:
            await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (usual.organization_id, plant.id))
            await plants.move_belongings(db, plant.org, plant.id, usual.organization_id)

    new = RecordedPlant(database, usual.organization_id, await add_plant(database, usual.organization_id))
    await record(new, 9)
    await roll_up(database)

    for table, rows in (("telemetry_minute", 288), ("telemetry_quarter", 96)):
        assert await count(database, table, await new.source(None), TODAY) == rows


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_years_that_are_kept_no_longer_go_piece_by_piece(database: Database) -> None:
    """A statement may take half a minute: one that removes everything would be undone, and tried in vain for ever."""
    usual, shorter = [await RecordedPlant.create(database) for _ in range(2)]
    for plant in (usual, shorter):
        await record(plant, 5, 6, 7, 8)
    await roll_up(database)
    async with database.transaction() as db:
        cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (shorter.organization_id,))
        ((slug,),) = await cursor.fetchall()
        await set_retention(db, slug, raw_days=3, minute_days=3, quarter_days=None)
        await db.execute("CREATE TABLE removed (source text, rows bigint)")
        await db.execute(
            "CREATE FUNCTION note_removed() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO removed SELECT TG_TABLE_NAME, count(*) FROM gone; RETURN NULL; END'"
        )
        for table in ("telemetry_frame", "telemetry_minute"):
            await db.execute(
                f"CREATE TRIGGER note_removed AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone"
                " FOR EACH STATEMENT EXECUTE FUNCTION note_removed()".encode()
            )
    await apply_retention(database, DEPLOYMENT, utc_now())
    async with database.transaction() as db:
        found = await (
            await db.execute("SELECT source, max(rows), sum(rows)::int FROM removed GROUP BY 1 ORDER BY 1")
        ).fetchall()
    assert found == [("telemetry_frame", 288, 4 * 288), ("telemetry_minute", 288, 4 * 288)]
    assert await count(database, "telemetry_frame", await usual.source(None), TODAY) == 4 * 288


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_a_day_with_more_than_a_statement_can_delete_goes_piece_by_piece(database: Database) -> None:
    """Otherwise retention would fail there each hour, and never come to the roll-ups of all organisations."""
    usual, shorter = [await RecordedPlant.create(database) for _ in range(2)]
    for plant in (usual, shorter):
        await record(plant, 8, 40)
    await roll_up(database)
    async with database.transaction() as db:
        cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (shorter.organization_id,))
        ((slug,),) = await cursor.fetchall()
        await set_retention(db, slug, raw_days=3, minute_days=None, quarter_days=None)
        await db.execute(
            "INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
            " SELECT %s, %s, %s::timestamptz + n * interval '1 ms', '{1}' FROM generate_series(1, 6000) n",
            (await shorter.source(None), await shorter.layout(["a"]), TODAY - 8 * DAY),
        )
    await end_large_changes(database, "telemetry_frame", 2_100)

    assert await apply_retention(database, DEPLOYMENT, utc_now())

    assert await count(database, "telemetry_frame", await shorter.source(None), TODAY) == 0
    assert await count(database, "telemetry_frame", await usual.source(None), TODAY) == 288
    assert await count(database, "telemetry_minute", await usual.source(None), TODAY) == 288


@pytest.mark.parametrize("bucket", Bucket)
async def test_ranges_inside_hours_keep_their_edges_where_frames_are_gone(database: Database, bucket: Bucket) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 2, 15, 30)
    narrow = bucket in (Bucket.MINUTE, Bucket.FIVE_MINUTES)
    ranges = [
        (TODAY - days * DAY + timedelta(hours=10, minutes=15), timedelta(minutes=length))
        for days in (2, 15, 30)
        for length in (30, 60, 150)
    ]
    before = [await read(plant, bucket, start, length) for start, length in ranges]
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    for (start, length), expected in zip(ranges, before, strict=True):
        gone = narrow and start < TODAY - 20 * DAY
        assert await read(plant, bucket, start, length) == ([] if gone else expected), (start, length)


async def test_a_part_of_a_quarter_whose_values_are_gone_is_left_out(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 15, 30)
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    sizes = []
    for days in (15, 30):
        start = TODAY - days * DAY + timedelta(hours=10, minutes=5)
        found = await read(plant, Bucket.QUARTER_HOUR, start, timedelta(minutes=35))
        sizes.append({point.time - start: point.size for point in found})
    assert sizes == [{-5 * MINUTE: 2, 10 * MINUTE: 3, 25 * MINUTE: 2}, {10 * MINUTE: 3}]


async def test_a_long_range_reaches_back_to_where_only_roll_ups_are_left(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await record(plant, 2, 15)
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    query = HistoryQuery(plant.id, TODAY - 100 * DAY, TODAY, "a", Bucket.FIVE_MINUTES)
    history = await open_history(reading_from(database), plant.org, query, capped=True)
    points = list(history.first)
    while not history.finished:
        points += await history.read()
    assert len(points) == 2 * 288


async def test_an_organisation_that_keeps_everything_holds_up_no_other(database: Database) -> None:
    everything, usual = [await RecordedPlant.create(database) for _ in range(2)]
    for plant in (everything, usual):
        await record(plant, 15)
    await roll_up(database)
    async with database.transaction() as db:
        cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (everything.organization_id,))
        ((slug,),) = await cursor.fetchall()
        await set_retention(db, slug, raw_days=1_000_000, minute_days=2_000_000_000, quarter_days=1_000_000)
    await apply_retention(database, DEPLOYMENT, utc_now())
    left = [await count(database, "telemetry_frame", await plant.source(None), TODAY) for plant in (everything, usual)]
    assert left == [288, 0]
    assert await apply_retention(database, Days(1_000_000, 1_000_000, 1_000_000), utc_now())


async def test_a_reader_of_frames_holds_up_no_other_table(database: Database) -> None:
    """The drop of a partition waits 5 s for the readers of its table. It ended the job, for every organisation."""
    plant = await RecordedPlant.create(database)
    await record(plant, 30)
    await roll_up(database)
    source = await plant.source(None)
    with capture_logs() as lines:
        async with database.transaction() as db:
            await db.execute("SELECT FROM telemetry_frame LIMIT 1")
            assert await apply_retention(database, DEPLOYMENT, utc_now())
    assert await partitions(database, "telemetry_minute") == 0
    assert await count(database, "telemetry_frame", source, TODAY) == 288
    [warning] = [one for one in lines if one["log_level"] == "warning"]
    assert (warning["event"], warning["table"]) == ("partitions not dropped: their table is in use", "telemetry_frame")
    assert await apply_retention(database, DEPLOYMENT, utc_now())
    assert await count(database, "telemetry_frame", source, TODAY) == 0


@pytest.mark.parametrize(("days_ago", "width"), [(5, MINUTE), (15, MINUTE), (30, 15 * MINUTE), (70, 60 * MINUTE)])
async def test_a_sub_devices_range_has_the_narrowest_buckets_that_are_kept(
    database: Database, days_ago: int, width: timedelta
) -> None:
    plant, start = await RecordedPlant.create(database), TODAY - days_ago * DAY
    await plant.add_device("D")
    await plant.write("D", ["a"], {start + number * MINUTE: [float(number)] for number in range(360)})
    await roll_up(database)
    await apply_retention(database, DEPLOYMENT, utc_now())
    reading = reading_from(database)
    history = await open_device_history(reading, plant.org, plant.id, "D", None, start, start + timedelta(hours=6))
    assert history.finished
    assert isinstance(history.first, list)
    assert [point.time for point in history.first] == [start + number * width for number in range(timedelta(hours=6) // width)]
    assert sum(point.size for point in history.first) == 360
