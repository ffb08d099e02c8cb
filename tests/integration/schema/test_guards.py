"""Audit events are deleted by retention only, and the owner's functions touch nothing but partitions of telemetry."""

from datetime import date, timedelta

import pytest
from psycopg import errors

from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import delete_old, record
from gridfleet.domains.audit.store import MOST_DELETED
from gridfleet.domains.telemetry.rollups.models import Level
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Connection, Database


async def add_event(db: Connection, age: timedelta) -> None:
    """Record an event, and make it older."""
    await record(db, Event.USER_LOGGED_IN, Actor(ActorType.SYSTEM))
    await db.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_unchanged")
    await db.execute("UPDATE audit_event SET created_at = created_at - %s", (age,))
    await db.execute("ALTER TABLE audit_event ENABLE TRIGGER audit_event_unchanged")


async def events(database: Database) -> int:
    async with database.transaction() as db:
        return (await db.execute("SELECT FROM audit_event")).rowcount


async def test_a_statement_deletes_no_audit_event(database: Database) -> None:
    notices: list[str] = []
    async with database.transaction() as db:
        await add_event(db, timedelta(days=1000))
        db.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        assert (await db.execute("DELETE FROM audit_event")).rowcount == 0
    assert await events(database) == 1
    assert notices == ["rows of audit_event are deleted by forget_audit_events only; none is deleted here"]


async def test_audit_events_cannot_be_truncated(database: Database) -> None:
    async with database.transaction() as db:
        await add_event(db, timedelta())
    with pytest.raises(errors.RaiseException, match="rows of audit_event are never changed"):
        async with database.transaction() as db:
            await db.execute("TRUNCATE audit_event")
    assert await events(database) == 1


async def test_retention_deletes_old_events_but_none_of_the_last_day(database: Database) -> None:
    async with database.transaction() as db:
        await add_event(db, timedelta(hours=25))
    await delete_old(database, 2, 1)
    assert await events(database) == 1
    await delete_old(database, 1, 1)
    assert await events(database) == 0
    async with database.transaction() as db:
        await add_event(db, timedelta(hours=22))
        cursor = await db.execute("SELECT forget_audit_events(NULL, '-infinity', now())")
        assert await cursor.fetchone() == (0,)


async def test_retention_deletes_all_old_events_however_many_there_are(database: Database) -> None:
    """Programs may send more commands in an hour, each an event, than one call of the function deletes."""
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO audit_event (id, event, actor_type, created_at)"
            " SELECT gen_random_uuid(), 'command.issued', 'API_KEY', now() - interval '31 days'"
            " FROM generate_series(0, %s::int)",
            (MOST_DELETED,),
        )
        await record(db, Event.USER_LOGGED_IN, Actor(ActorType.SYSTEM))
    await delete_old(database, 30, 30)
    assert await events(database) == 1


@pytest.mark.parametrize("parent", ["telemetry_frame", "telemetry_minute", "telemetry_quarter"])
async def test_partitions_are_created_once_and_dropped(database: Database, parent: str) -> None:
    first = date(2031, 2, 1)
    for _ in range(2):
        async with database.transaction() as db:
            await db.execute("SELECT create_telemetry_partition(%s, %s)", (parent, first))
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = %s", (f"{parent}_20310201",)
        )
        row = await cursor.fetchone()
        assert row is not None
        days = 28 if parent == Level.QUARTER.table else 1
        bounds = [f"'{first + timedelta(days=ahead)} 00:00:00+00'" for ahead in (0, days)]
        assert row[0] == f"FOR VALUES FROM ({bounds[0]}) TO ({bounds[1]})"
        await db.execute("SELECT drop_telemetry_partition(%s)", (f"{parent}_20310201",))
        assert await (await db.execute("SELECT to_regclass(%s)", (f"{parent}_20310201",))).fetchone() == (None,)


@pytest.mark.parametrize(
    "call",
    [
        "create_telemetry_partition('plant', '2031-02-01')",
        "create_telemetry_partition('telemetry_quarter', '2031-02-02')",
        "drop_telemetry_partition('plant')",
        "drop_telemetry_partition('telemetry_frame')",
        "drop_telemetry_partition('no_such_table')",
        "drop_telemetry_chunks('plant', now())",
    ],
)
async def test_the_owners_functions_refuse_other_tables(database: Database, call: str) -> None:
    with pytest.raises(errors.InvalidParameterValue):
        async with database.transaction() as db:
            await db.execute(f"SELECT {call}".encode())


async def test_tables_with_partitions_have_no_chunks_to_drop(database: Database) -> None:
    async with database.transaction() as db:
        for level in ("telemetry_frame", "telemetry_minute", "telemetry_quarter"):
            await db.execute("SELECT create_telemetry_partition(%s, '2031-02-01')", (level,))
            cursor = await db.execute("SELECT drop_telemetry_chunks(%s, 'infinity')", (level,))
            assert await cursor.fetchone() == (0,)
            cursor = await db.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{level}_20310201",))
            assert await cursor.fetchone() == (True,)


async def test_a_temporary_table_does_not_stand_in_for_the_owners(database: Database) -> None:
    async with database.transaction() as db:
        await db.execute("CREATE TEMPORARY TABLE telemetry_frame (LIKE telemetry_frame) PARTITION BY RANGE (time)")
        await db.execute("SELECT create_telemetry_partition('telemetry_frame', '2031-02-03')")
        cursor = await db.execute(
            "SELECT inhparent = 'public.telemetry_frame'::regclass FROM pg_inherits"
            " WHERE inhrelid = 'public.telemetry_frame_20310203'::regclass"
        )
        assert await cursor.fetchone() == (True,)
