"""Reads of the queue of events while an old snapshot, such as that of `pg_dump`, keeps all that were published since."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from gridfleet.domains.partner_events import queue
from gridfleet.domains.partner_events.models import Room
from gridfleet.domains.partner_events.queue import (
    count_events,
    drop_stale,
    drop_surplus,
    first_ids,
    next_events,
    oldest_seconds,
)
from gridfleet.domains.partner_events.queue_starts import QueueStarts
from gridfleet.kernel.db import Connection, Database
from support.builders.partner_site import PartnerSite, partner_site

PUBLISHED = 50_000
WAITING = 20

BLOCKS = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relname LIKE 'partner_event%'"


async def blocks(database: Database, read: Callable[[Connection], Awaitable[Any]]) -> int:
    """Return how many blocks of the queue and its indexes a read has fetched."""
    async with await psycopg.AsyncConnection.connect(database.url) as db:  # its statistics are of this read only
        await read(db)
        cursor = await db.execute(BLOCKS)
        return int((await cursor.fetchall())[0][0])


async def insert(site: PartnerSite, count: int) -> int:
    """Queue telemetry events. Returns the first id."""
    rows = await site.rows(
        "WITH new AS (INSERT INTO partner_event (event_id, organization_id, kind, body) SELECT gen_random_uuid(), %(org)s,"
        f" 'telemetry', '' FROM generate_series(1, {count}) RETURNING id) SELECT min(id) FROM new"
    )
    return int(rows[0][0])


def starts_at(start: int) -> QueueStarts[None]:
    starts = QueueStarts[None](0)
    starts.note({None: start})
    return starts


async def test_reads_begin_behind_what_was_published_during_a_dump(database: Database) -> None:
    """Each read passed all of them: after hours of a dump, looks for events were slower than their number rose."""
    site = await partner_site(database)
    org = site.plant.organization_id
    await insert(site, PUBLISHED)

    async def look(db: Connection, start: int) -> None:
        assert len(await next_events(db, {org: Room(1_000, 1_000_000, 1, start)}, [], 2_000, 1_000_000)) == WAITING

    async def look_for_late(db: Connection, start: int) -> None:
        assert list(await first_ids(db, {org: start})) == [org]

    async def oldest(db: Connection, start: int) -> None:
        assert 0 < await oldest_seconds(db, starts_at(start)) < 100

    async def count(db: Connection, start: int) -> None:
        assert await count_events(db, starts_at(start)) == WAITING

    async def drop(db: Connection, start: int) -> None:
        assert await drop_stale(db, starts_at(start)) == 0

    async with await psycopg.AsyncConnection.connect(database.url) as dump:
        await dump.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await dump.execute("SELECT 1 FROM partner_event LIMIT 1")
        await site.execute("DELETE FROM partner_event WHERE organization_id = %(org)s")
        first = await insert(site, WAITING)
        for read in (look, look_for_late, oldest, count, drop):
            whole, later = [await blocks(database, partial(read, start=start)) for start in (0, first)]
            assert later < whole / 10, (read.__name__, whole, later)


async def test_the_surplus_is_looked_for_behind_the_start(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_BYTES", 0)
    site = await partner_site(database)
    await insert(site, 10)
    start = await insert(site, 10)
    assert await drop_surplus(database, site.plant.organization_id, start, list) == 10
    left = await site.rows("SELECT max(id) FROM partner_event WHERE organization_id = %(org)s")
    assert left[0][0] < start
