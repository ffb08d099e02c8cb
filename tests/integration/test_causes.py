"""The cause of queued work is stored in its row and reaches the process that carries it out."""

import asyncio
from typing import Any

import pytest
import structlog

from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import record
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.cause import at_work, current_cause
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.jobs import cause_of, defer
from gridfleet.kernel.outbox import Outbox, enqueue
from support.builders.counters import value_of
from support.servers.running_task import running


async def test_an_effect_is_carried_out_for_its_cause_and_one_without_any_as_well(database: Database) -> None:
    seen: dict[int, str] = {}
    done = asyncio.Event()

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        seen[payload["number"]] = structlog.contextvars.get_contextvars()["request_id"]
        if len(seen) == 2:
            done.set()

    with at_work("test", {"request_id": "the-cause"}):
        async with database.transaction() as db:
            await enqueue(db, "test", {"number": 1})
    async with database.transaction() as db:  # as a process of the release before does it
        await db.execute("INSERT INTO outbox (kind, payload, due_at) VALUES ('test', '{\"number\": 2}', now())")
    outbox = Outbox(database)
    outbox.register("test", carry_out)
    async with running(outbox.run()):
        await asyncio.wait_for(done.wait(), 20)
    assert seen[1] == "the-cause"
    assert seen[2] not in ("", "the-cause")


async def test_a_job_keeps_its_cause_until_it_is_gone(database: Database) -> None:
    async with database.transaction() as db:
        with at_work("test", {"request_id": "the-cause"}):
            await defer(db, "test", {})
        await defer(db, "test", {})
        rows = await (await db.execute("SELECT id FROM procrastinate_jobs ORDER BY id")).fetchall()
        assert [await cause_of(db, job_id) for (job_id,) in rows] == [{"request_id": "the-cause"}, None]
        await db.execute("DELETE FROM procrastinate_jobs")
        assert await (await db.execute("SELECT count(*) FROM job_cause")).fetchone() == (0,)


async def test_what_is_rolled_back_is_not_counted(database: Database) -> None:
    counter = metrics.AUDIT_EVENTS.labels(Event.USER_LOCKED)
    before = value_of(counter)
    actor = Actor(ActorType.SYSTEM, None, None)

    async def fail() -> None:
        async with database.transaction() as db:
            await record(db, Event.USER_LOCKED, actor)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert value_of(counter) == before
    async with database.transaction() as db:
        await record(db, Event.USER_LOCKED, actor)
        assert value_of(counter) == before, "not before the commit"
    assert value_of(counter) == before + 1


def test_outside_of_any_work_there_is_no_cause() -> None:
    assert current_cause() is None
    with at_work("test"):
        assert current_cause() is not None
    assert current_cause() is None
