"""Effects follow commits: none without, at least one with, in order where it matters, whatever fails or is killed."""

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from gridfleet.kernel.db import Connection, Database, open_database, outbox, set_aside
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.outbox import CarryOut, Outbox, enqueue
from support.servers.running_task import running


@asynccontextmanager
async def working(database: Database, carry_out: CarryOut, **options: Any) -> AsyncIterator[None]:
    """An outbox at work on effects of kind `test`."""
    outbox = Outbox(database)
    outbox.register("test", carry_out, **options)
    async with running(outbox.run()):
        yield


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def queue(database: Database, *numbers: int, delay: float = 0) -> None:
    async with database.transaction() as db:
        for number in numbers:
            await enqueue(db, "test", {"number": number}, delay=timedelta(seconds=delay))


async def nothing_left(database: Database, seconds: float = 60) -> None:
    """Waits until every effect is struck off."""
    async with asyncio.timeout(seconds):
        while True:
            async with database.transaction() as db:
                if await (await db.execute("SELECT count(*) FROM outbox")).fetchone() == (0,):
                    return
            await asyncio.sleep(0.01)


async def test_an_effect_follows_its_commit_within_moments(database: Database) -> None:
    done: list[int] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        done.append(payload["number"])

    async with working(database, carry_out):
        await asyncio.sleep(0.3)
        async with database.transaction() as db:
            await enqueue(db, "test", {"number": 1})
            await asyncio.sleep(0.3)
            assert done == []
        await until(lambda: done == [1], 0.5)
        try:
            async with database.transaction() as db:
                await enqueue(db, "test", {"number": 2})
                raise RuntimeError("rolled back")
        except RuntimeError:
            pass
        await queue(database, 3, delay=0.5)
        await asyncio.sleep(0.2)
        assert done == [1]
        await nothing_left(database, 1)
    assert done == [1, 3]


async def test_a_failure_holds_up_only_its_own_effect_and_each_is_carried_out_once(database: Database) -> None:
    done: list[int] = []
    failures = 2

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        nonlocal failures
        if payload["number"] == 0 and failures:
            failures -= 1
            raise ConnectionError("away")
        await asyncio.sleep(0.002)
        done.append(payload["number"])

    await queue(database, *range(40))
    async with (
        open_database(database.url, name="second", size=5) as second,
        working(database, carry_out, workers=4),
        working(second, carry_out, workers=4),
    ):
        await until(lambda: len(done) == 40)
    assert sorted(done) == list(range(40))
    assert done.index(1) < done.index(0)


async def test_an_effect_that_fails_by_itself_is_set_aside_and_lets_the_others_go(database: Database) -> None:
    done: list[int] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        if payload["number"] == 0:
            raise KeyError("names")
        done.append(payload["number"])

    await queue(database, 0, 1)
    async with working(database, carry_out):
        await until(lambda: done == [1], 20)
        await nothing_left(database)
    async with database.transaction() as db:
        [kept] = await set_aside.newest(db, 10)
    assert (kept.consumer, kept.reason) == ("effects", "KeyError: 'names'")
    assert kept.content == {"kind": "test", "payload": {"number": 0}}


async def test_an_effect_that_hangs_leaves_the_other_workers_free(database: Database) -> None:
    done: list[int] = []
    hanging = asyncio.Event()

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        if payload["number"] == 0:
            hanging.set()
            await asyncio.Event().wait()
        done.append(payload["number"])

    await queue(database, 0)
    async with working(database, carry_out, workers=2):
        async with asyncio.timeout(10):
            await hanging.wait()
        # Long after the other worker has found nothing to do.
        for number in (1, 2, 3):
            await asyncio.sleep(0.2)
            await queue(database, number)
        await until(lambda: done == [1, 2, 3])


async def test_what_a_failing_handler_wrote_is_undone_and_what_a_good_one_wrote_stays(database: Database) -> None:
    tries = 0

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        nonlocal tries
        tries += 1
        await db.execute("INSERT INTO ingest_shard (shard, drained_at) VALUES (%s, now())", (tries,))
        if tries == 1:
            raise ConnectionError("away")

    await queue(database, 1)
    async with working(database, carry_out):
        await nothing_left(database)
    async with database.transaction() as db:
        assert await (await db.execute("SELECT shard FROM ingest_shard")).fetchall() == [(2,)]


async def test_a_killed_process_loses_nothing(database: Database) -> None:
    await queue(database, *range(5))
    killed = subprocess.run([sys.executable, "-c", DIES_AT_WORK, database.url], timeout=30)
    assert killed.returncode == -signal.SIGKILL
    done: list[int] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        done.append(payload["number"])

    async with working(database, carry_out):
        await nothing_left(database)
    assert sorted(done)[-3:] == [2, 3, 4]


DIES_AT_WORK = textwrap.dedent("""
    import asyncio, os, signal, sys
    from gridfleet.kernel.db import open_database
    from gridfleet.kernel.outbox import Outbox

    async def carry_out(db, payload):
        if payload["number"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        async with open_database(sys.argv[1], name="dying", size=3) as database:
            outbox = Outbox(database)
            outbox.register("test", carry_out, workers=1)
            await outbox.run()

    asyncio.run(main())
""")


async def test_it_starts_again_after_the_database_was_away(database: Database) -> None:
    """The run ends with an error when its connections are cut; the next one finds what waits."""
    done: list[int] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        done.append(payload["number"])

    outbox = Outbox(database)
    outbox.register("test", carry_out)
    async with running(outbox.run()) as task:
        await asyncio.sleep(0.3)
        with psycopg.connect(database.url, autocommit=True) as other:
            other.execute(
                # Waits for the end of each: a backend that is still dying accepts the next query and fails it.
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await asyncio.wait([task], timeout=10)
        assert task.exception() is not None
    await queue(database, 1)
    async with working(database, carry_out):
        await until(lambda: done == [1])


async def test_an_effect_that_waited_for_two_days_is_retried(database: Database) -> None:
    tries: list[int] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        tries.append(payload["number"])
        if len(tries) == 1:
            raise ConnectionError("the broker has not started yet")

    await queue(database, 1)
    async with database.transaction() as db:
        await db.execute("UPDATE outbox SET created_at = now() - interval '2 days'")
    async with working(database, carry_out):
        await nothing_left(database)
    assert tries == [1, 1]


@pytest.mark.parametrize("workers", [1, 2])
async def test_organisations_take_turns(database: Database, workers: int) -> None:
    before, busy, after = sorted(str(new_id()) for _ in range(3))
    done: list[str | None] = []

    async def carry_out(db: Connection, payload: dict[str, Any]) -> None:
        await asyncio.sleep(0.02)
        done.append(payload.get("organizationId"))

    async with database.transaction() as db:
        for _ in range(30):
            await enqueue(db, "test", {"organizationId": busy})
        await enqueue(db, "test", {"organizationId": busy}, delay=timedelta(hours=1))
        await enqueue(db, "test", {"organizationId": before})
        await enqueue(db, "test", {"organizationId": after})
        await enqueue(db, "test", {})

    async with working(database, carry_out, workers=workers):
        await until(lambda: len(done) == 33)

    assert {before, busy, after, None} <= set(done[: 4 * workers])


async def test_a_claim_leaves_the_effects_of_other_organisations_to_other_workers(database: Database) -> None:
    async with database.transaction() as db:
        for organization in "ABC":
            await enqueue(db, "test", {"organizationId": organization})

    async with database.transaction() as one, database.transaction() as two, database.transaction() as three:
        claimed = [await outbox.claim(db, "test", "A") for db in (one, two, three)]

    assert [effect and effect.organization for effect in claimed] == ["B", "C", "A"]
