"""Lengths and ages of the database's queues."""

from gridfleet.domains.maintenance.queues import Waiting, waiting
from gridfleet.kernel.db import Database

QUEUED = (
    "INSERT INTO procrastinate_jobs (queue_name, task_name, lock, status, scheduled_at)"
    " VALUES ('default', 'long', %s, %s, now() - interval '20 minutes')"
)


async def state(database: Database, name: str) -> Waiting:
    async with database.transaction() as db:
        [found] = [queue for queue in await waiting(db) if queue.queue == name]
    return found


async def test_a_job_that_waits_for_the_end_of_another_is_not_stuck(database: Database) -> None:
    async with database.transaction() as db:
        await db.execute(QUEUED, ("retention", "doing"))
        await db.execute(QUEUED, ("retention", "todo"))
    assert (await state(database, "jobs")).length == 0

    async with database.transaction() as db:
        await db.execute(QUEUED, (None, "todo"))
        await db.execute(QUEUED, ("other", "todo"))
    found = await state(database, "jobs")
    assert found.length == 2
    assert 1190 < found.oldest_seconds < 1260

    async with database.transaction() as db:
        await db.execute("UPDATE procrastinate_jobs SET status = 'failed' WHERE status = 'doing'")
    assert (await state(database, "jobs")).length == 3
