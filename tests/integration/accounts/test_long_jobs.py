"""Jobs that take long do not keep the short ones of all organisations waiting."""

import asyncio

import psycopg

from gridfleet.domains.identity.accounts.password_reset import START_TASK, request
from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY, delete_plant
from gridfleet.jobs.schedule import run_jobs
from gridfleet.kernel.db.jobs import defer
from support.builders.telemetry_records import RecordedPlant
from support.clients.people import People
from support.servers.running_task import running


async def test_the_deletion_of_many_plants_leaves_workers_for_other_jobs(people: People) -> None:
    state = people.service.state
    for _ in range(12):
        plant = await RecordedPlant.create(state.database)
        await plant.source(None)
        async with state.database.transaction() as db:
            await delete_plant(db, plant.org, plant.id)
            # As if the job of each plant had begun before the next one was deleted.
            await defer(db, ERASE_TELEMETRY, {"timestamp": 0}, lock=ERASE_TELEMETRY)

    async def jobs(task: str, status: str) -> int:
        query = "SELECT FROM procrastinate_jobs WHERE task_name = %s AND status = %s"
        async with state.database.transaction() as db:
            return (await db.execute(query, (task, status))).rowcount

    async with await psycopg.AsyncConnection.connect(state.database.url) as other:
        await other.execute("LOCK TABLE telemetry_source IN ACCESS EXCLUSIVE MODE")  # as if their telemetry took long
        async with running(run_jobs(state.settings, state.database)), asyncio.timeout(4):
            while not await jobs(ERASE_TELEMETRY, "doing"):
                await asyncio.sleep(0.05)
            async with state.database.transaction() as db:
                await defer(db, START_TASK, {"email": "a@example.com", "ip": "127.0.0.1"})
            while await jobs(START_TASK, "todo") or await jobs(START_TASK, "doing"):
                await asyncio.sleep(0.05)
            assert await jobs(ERASE_TELEMETRY, "doing") == 1


async def test_a_flood_of_reset_requests_delays_no_periodic_job(people: People) -> None:
    state = people.service.state
    sweep = "plants.sweep_silent"
    async with state.database.transaction() as db:
        await request(db, "a@example.com", "127.0.0.1")
        await db.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
            " SELECT queue_name, task_name, args FROM procrastinate_jobs, generate_series(2, 5000)"
        )
        await defer(db, sweep, {"timestamp": 0})

    async def unfinished(task: str) -> int:
        async with state.database.transaction() as db:
            query = "SELECT FROM procrastinate_jobs WHERE task_name = %s AND status IN ('todo', 'doing')"
            return (await db.execute(query, (task,))).rowcount

    async with running(run_jobs(state.settings, state.database)), asyncio.timeout(20):
        while await unfinished(sweep):
            await asyncio.sleep(0.05)
        assert await unfinished(START_TASK) > 3_000
