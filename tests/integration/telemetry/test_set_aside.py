"""An hour that cannot be rolled up is set aside where operators see it, while everything else goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from gridfleet.cli.doctor import examination
from gridfleet.cli.doctor.database import check_database
from gridfleet.domains.maintenance.queues import waiting
from gridfleet.domains.telemetry.frames.deletion import erase_deleted
from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.models import Bucket
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention
from gridfleet.domains.telemetry.rollups import recomputation
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.settings import Settings
from support.builders.telemetry_records import RecordedPlant

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
BEGIN = TODAY - 20 * DAY
BAD_HOUR = BEGIN + 30 * HOUR

TAKES_TOO_LONG = "RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'"


@asynccontextmanager
async def failing(database: Database, condition: str, statement: str = "RAISE EXCEPTION 'never'") -> AsyncIterator[None]:
    """Make the database execute `statement` when it writes the roll-up (`NEW`) of an hour for which `condition` holds."""
    async with database.transaction() as db:
        await db.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {condition} THEN {statement}; END IF; RETURN NEW; END $$".encode()
        )
        await db.execute("CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON telemetry_hour FOR EACH ROW EXECUTE FUNCTION fail()")
    yield
    async with database.transaction() as db:
        await db.execute("DROP FUNCTION fail CASCADE")


def bad_hour_of(source: int) -> str:
    """Return the condition that a roll-up is the one of BAD_HOUR."""
    return f"NEW.source_id = {source} AND NEW.bucket = '{BAD_HOUR.isoformat()}'"


async def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    async with database.transaction() as db:
        return list(await (await db.execute(query.encode())).fetchall())


async def partitions(database: Database, table: str) -> list[object]:
    query = f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass ORDER BY 1"
    return [name for (name,) in await rows(database, query)]


async def averages(plant: RecordedPlant, start: datetime, end: datetime) -> list[float]:
    async with plant.database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        return [point.average for point in await read_buckets(db, series, Bucket.HOUR, start, end)]


async def recorded(database: Database, hours: int) -> RecordedPlant:
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {BEGIN + number * HOUR: [float(number)] for number in range(hours)})
    return plant


@pytest.mark.parametrize("code", ["22003", "57014", "55P03", "XX001", "P0001", "23514"])
async def test_an_hour_that_fails_is_set_aside_and_all_others_go_on(database: Database, code: str) -> None:
    bad, good = await recorded(database, 60), await recorded(database, 60)
    source = await bad.source(None)
    async with failing(database, bad_hour_of(source), f"RAISE EXCEPTION 'cannot be summed' USING ERRCODE = '{code}'"):
        assert await roll_up(database) == 119
        assert await rows(database, "SELECT source_id, hour FROM telemetry_dirty") == [(source, BAD_HOUR)]
        [(set_aside, hour, error, attempts)] = await rows(
            database, "SELECT source_id, hour, error, attempts FROM telemetry_set_aside WHERE retry_at > now()"
        )
        assert (set_aside, hour, attempts) == (source, BAD_HOUR, 1)
        assert "cannot be summed" in str(error)
        assert await roll_up(database) == 0
        # What is asked of the hour is computed from its frames.
        async with database.transaction() as db:
            series = await plant_series(db, bad.org, bad.id)
            [point] = await read_buckets(db, series, Bucket.HOUR, BAD_HOUR, BAD_HOUR + HOUR)
        assert point.average == 30.0
        await bad.write(None, ["a"], {BAD_HOUR: [31.0]})
        await good.write(None, ["a"], {BAD_HOUR: [31.0]})
        assert await roll_up(database) == 1
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_set_aside SET retry_at = now()")
    assert await roll_up(database) == 1
    assert await rows(database, "SELECT FROM telemetry_dirty UNION ALL SELECT FROM telemetry_set_aside") == []
    assert await rows(database, "SELECT count(*) FROM telemetry_hour") == [(120,)]


async def test_each_failure_waits_longer_for_the_next_try(database: Database) -> None:
    bad = await recorded(database, 40)
    async with failing(database, bad_hour_of(await bad.source(None))):
        waits = []
        for _ in range(9):
            await roll_up(database)
            [(wait, attempts)] = await rows(database, "SELECT retry_at - now(), attempts FROM telemetry_set_aside")
            waits.append(wait)
            async with database.transaction() as db:
                await db.execute("UPDATE telemetry_set_aside SET retry_at = now()")
    assert attempts == 9
    assert waits[0] <= timedelta(minutes=31)
    # The time between the failure and the query differs.
    assert all(later > earlier - timedelta(minutes=1) for earlier, later in pairwise(waits))
    assert timedelta(hours=23) < waits[-1] <= timedelta(days=1, minutes=1)


async def test_hours_that_take_too_long_do_not_use_up_the_jobs_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65,000 frames of a device in an hour can take longer than a statement may. The hours around it were halved three times,
    then the time had ended, and the next call began with all of them: no hour of any organisation was rolled up any more.
    """
    bad, good = await RecordedPlant.create(database), await RecordedPlant.create(database)
    for plant, hours in ((bad, 1), (good, 20)):
        for device in ("A", "B", "C"):
            await plant.add_device(device)
            await plant.write(device, ["a"], {BEGIN + number * HOUR: [float(number)] for number in range(hours)})
    now = 0.0
    is_poison = recomputation.is_poison

    def after_thirty_seconds(error: BaseException, *, is_retried: bool) -> bool:
        nonlocal now
        now += 30
        return is_poison(error, is_retried=is_retried)

    monkeypatch.setattr(recomputation, "monotonic", lambda: now)
    monkeypatch.setattr(recomputation, "is_poison", after_thirty_seconds)
    of_bad = f"EXISTS (SELECT FROM telemetry_source WHERE id = NEW.source_id AND plant_id = '{bad.id}')"
    async with failing(database, of_bad, TAKES_TOO_LONG):
        await roll_up(database, seconds=100)
    assert await rows(database, "SELECT count(*) FROM telemetry_hour") == [(60,)]
    assert await rows(database, "SELECT count(*) > 0 FROM telemetry_set_aside") == [(True,)]


async def test_the_last_hour_has_the_time_of_a_single_one(database: Database) -> None:
    """After an hour that took too long, statements have less time in transactions that have room for several hours."""
    bad, good, last = [await recorded(database, 1) for _ in range(3)]  # in the order of their turns
    slow = (
        f"NEW.source_id = {await bad.source(None)} OR (NEW.source_id = {await last.source(None)}"
        " AND current_setting('statement_timeout')::interval < interval '20 s')"
    )
    async with failing(database, slow, TAKES_TOO_LONG):
        assert await roll_up(database) == 2
    assert await rows(database, "SELECT source_id FROM telemetry_set_aside") == [(await bad.source(None),)]
    assert {row[0] for row in await rows(database, "SELECT source_id FROM telemetry_hour")} == {
        await good.source(None),
        await last.source(None),
    }


async def test_a_source_whose_every_hour_fails_holds_up_no_other(database: Database) -> None:
    bad, good = await recorded(database, 6), await recorded(database, 5)
    source, other = await bad.source(None), await good.source(None)
    async with failing(database, f"NEW.source_id = {source}"):
        assert await roll_up(database) == 5
    assert await rows(database, "SELECT count(*) FROM telemetry_set_aside") == [(6,)]
    # Transactions are numbered: the other source waited for one failure alone.
    assert await rows(
        database,
        "SELECT count(*) FROM telemetry_set_aside a WHERE a.xmin::text::bigint < ALL"
        f" (SELECT h.xmin::text::bigint FROM telemetry_hour h WHERE h.source_id = {other})",
    ) == [(1,)]


async def test_a_database_that_goes_away_is_no_fault_of_an_hour(database: Database) -> None:
    plant = await recorded(database, 40)
    async with failing(database, bad_hour_of(await plant.source(None)), "PERFORM pg_terminate_backend(pg_backend_pid())"):
        with pytest.raises(psycopg.OperationalError):
            await roll_up(database)
    assert await rows(database, "SELECT FROM telemetry_set_aside") == []
    assert await roll_up(database) == 40


async def test_retention_waits_for_the_source_of_the_hour_alone(database: Database) -> None:
    bad, good = await recorded(database, 40), await recorded(database, 40)
    await bad.add_device("BAT1")
    await bad.write("BAT1", ["a"], {BEGIN: [1.0], BAD_HOUR: [2.0]})
    source, neighbour, other = await bad.source(None), await bad.source("BAT1"), await good.source(None)
    async with failing(database, bad_hour_of(source)):
        await roll_up(database)
    assert await apply_retention(database, Days(raw=10, minute=15, quarter=60), utc_now())
    left = await rows(database, "SELECT source_id, count(*), min(time) FROM telemetry_frame GROUP BY source_id")
    assert left == [(source, 16, BAD_HOUR.replace(hour=0))]
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_set_aside SET retry_at = now()")
    assert await roll_up(database) == 1
    assert await apply_retention(database, Days(raw=10, minute=15, quarter=60), utc_now())
    assert await rows(database, "SELECT FROM telemetry_frame") == []
    hours = await rows(database, "SELECT source_id, count(*) FROM telemetry_hour GROUP BY 1 ORDER BY 1")
    assert hours == sorted([(source, 40), (other, 40), (neighbour, 2)])


async def test_an_hour_that_is_never_rolled_up_does_not_keep_the_data_of_all(database: Database) -> None:
    """Each partition has the data of all organisations, so none was ever dropped again."""
    bad, good = await recorded(database, 40), await recorded(database, 40)
    days, first, second = Days(raw=10, minute=15, quarter=5), f"{BEGIN:%Y%m%d}", f"{BEGIN + DAY:%Y%m%d}"
    async with failing(database, bad_hour_of(await bad.source(None))):
        await roll_up(database)
        assert await partitions(database, "telemetry_minute") == [f"telemetry_minute_{first}", f"telemetry_minute_{second}"]
        assert await apply_retention(database, days, utc_now() + 20 * DAY)
        assert await partitions(database, "telemetry_minute") == []
        assert await partitions(database, "telemetry_quarter") == []
        assert await partitions(database, "telemetry_frame") == [f"telemetry_frame_{second}"]
        assert await averages(bad, BAD_HOUR - HOUR, BAD_HOUR + HOUR) == [29.0, 30.0]

        assert await apply_retention(database, days, utc_now() + 41 * DAY)
        assert await partitions(database, "telemetry_frame") == []
        assert await rows(database, "SELECT FROM telemetry_dirty UNION ALL SELECT FROM telemetry_set_aside") == []
    assert await averages(bad, BAD_HOUR - HOUR, BAD_HOUR + HOUR) == [29.0]
    assert await averages(good, BAD_HOUR - HOUR, BAD_HOUR + HOUR) == [29.0, 30.0]


async def test_operators_see_what_is_set_aside(database: Database, home: Path) -> None:
    bad = await RecordedPlant.create(database)
    await bad.add_device("BAT1")
    await bad.write("BAT1", ["a"], {BAD_HOUR: [1.0]})

    async def finding() -> tuple[str, str]:
        settings = Settings(home=home, database_url=database.url, keys=f"1:{'11' * 32}")  # type: ignore[arg-type]
        [found] = [one for one in await check_database(examination(settings)) if one.check == "telemetry roll-ups"]
        return found.status.value, found.found

    assert (await finding())[0] == "ok"
    async with failing(database, bad_hour_of(await bad.source("BAT1")), "RAISE EXCEPTION 'cannot be summed'"):
        await roll_up(database)
    async with database.transaction() as db:
        queues = {one.queue: one for one in await waiting(db)}
    assert queues["roll_ups_set_aside"].length == 1
    status, text = await finding()
    assert status == "warn"
    for part in (str(bad.id), "BAT1", f"{BAD_HOUR:%Y-%m-%d %H:%M}", "cannot be summed"):
        assert part in text


async def test_a_deleted_plants_hours_are_set_aside_no_more(database: Database) -> None:
    bad = await recorded(database, 40)
    async with failing(database, bad_hour_of(await bad.source(None))):
        await roll_up(database)
        async with database.transaction() as db:
            await db.execute("DELETE FROM plant WHERE id = %s", (bad.id,))
        assert await erase_deleted(database) == 1
    assert await rows(database, "SELECT FROM telemetry_set_aside UNION ALL SELECT FROM telemetry_dirty") == []
