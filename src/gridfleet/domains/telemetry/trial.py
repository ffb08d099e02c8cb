"""A trial of the tables of telemetry, in a transaction that is rolled back: one batch, one roll-up and one query."""

from datetime import UTC, datetime, timedelta
from typing import Final

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, microseconds
from gridfleet.domains.telemetry.frames.writer import Partitions, write_batch
from gridfleet.domains.telemetry.history.values import store as values
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.models import Level, Stale
from gridfleet.domains.telemetry.rollups.reading import store as reading
from gridfleet.domains.telemetry.rollups.recomputation import ensure_partitions, recompute
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id

__all__ = ["TrialFailed", "try_tables"]

_METRICS: Final = FrameLayout((Metric("trial", "", False, None, None),))
_SOURCES: Final = 8
_VALUE: Final = 2.5
_MINUTE: Final = timedelta(minutes=1)


class TrialFailed(RuntimeError):
    """The text says what was read instead of what was written."""


class _RollBack(Exception):
    pass


async def try_tables(database: Database) -> None:
    """Write a value of some sources, roll it up and read it. Only the partitions of the present day stay.

    Raises:
        TrialFailed: A value is missing or wrong.
        psycopg.Error: A statement failed.
    """
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    await Partitions(database).ensure([hour.date()])
    async with database.transaction() as db:
        await ensure_partitions(db, [hour.date()], [hour.date()])
    try:
        async with database.transaction() as db:
            await _write_and_read(db, hour)
            raise _RollBack
    except _RollBack:
        return


async def _write_and_read(db: Connection, hour: datetime) -> None:
    sources = [await store.create_source(db, new_id(), new_id()) for _ in range(_SOURCES)]
    layout = await store.ensure_layout(db, _METRICS)
    batch = FrameBatch()
    for source in sources:
        batch.add(source, layout, microseconds(hour), [_VALUE])
    await write_batch(db, batch)
    stale = [Stale(source, hour) for source in sources]
    await recompute(db, stale)
    frames, _ = await values.frames_page(db, sources, hour, hour + _MINUTE, 1, _SOURCES)
    _compare("frames", [(frame[1], frame[3]) for frame in frames], [(source, [_VALUE]) for source in sources])
    for source in sources:
        for level in (Level.MINUTE, Level.QUARTER, Level.HOUR):
            rows = await reading.buckets(db, level, source, layout, [0], hour, hour + _MINUTE, level.width)
            _compare(level.table, [row[2:] for row in rows], [(_VALUE, _VALUE, 1)])
    for source in sources:
        await store.delete_frames(db, source)
        for level in Level:
            await rollups.erase(db, source, level)
    frames, _ = await values.frames_page(db, sources, hour, hour + _MINUTE, 1, _SOURCES)
    _compare("deleted frames", frames, [])


def _compare(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise TrialFailed(f"{what}: {found} instead of {expected}")
