"""Periodic jobs run although the machine's clock is set, or the database was away."""

import asyncio
import time
from pathlib import Path

import psycopg
import pytest

from gridfleet.jobs.schedule import run_jobs
from gridfleet.kernel.db import Connection
from gridfleet.kernel.tasks import Backoff, supervise
from support.clients.people import People
from support.servers.api_service import api_service
from support.servers.running_task import running

DAY = 86_400


async def newest_run(people: People, task: str = "plants.sweep_silent") -> int:
    """Return the newest time, in epoch seconds, for which the job was queued; 0 before its first."""
    [(newest,)] = await people.execute(
        "SELECT coalesce(max(defer_timestamp), 0) FROM procrastinate_periodic_defers WHERE task_name = %s", task
    )
    return int(newest)


async def test_a_daily_job_runs_although_no_process_ran_at_its_time(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, rate_limits="off") as service:
        people, state = People(service), service.state
        async with running(run_jobs(state.settings, state.database)), asyncio.timeout(60):
            while not await newest_run(people, "notifications.trim_deliveries"):
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("step_seconds", [-DAY, 400 * DAY])
async def test_periodic_jobs_run_after_the_clock_was_set(
    database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch, step_seconds: int
) -> None:
    true_time, ahead = time.time, 0
    monkeypatch.setattr(time, "time", lambda: true_time() + ahead)
    async with api_service(database_url, home, rate_limits="off") as service:
        people, state = People(service), service.state
        jobs = supervise("jobs", lambda: run_jobs(state.settings, state.database), Backoff(first=0.1))
        async with running(jobs), asyncio.timeout(90):
            while not await newest_run(people):
                await asyncio.sleep(0.1)
            await people.execute("DELETE FROM procrastinate_periodic_defers")
            ahead = step_seconds
            while abs(await newest_run(people) - time.time()) > 120:
                await asyncio.sleep(0.1)


async def test_jobs_run_after_the_clock_was_set_while_one_takes_long(
    database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion of a plant's telemetry may take an hour. Until it had ended, no other job ran."""
    true_time, ahead, begun = time.time, 0, asyncio.Event()

    async def take_long(_: Connection) -> int:
        begun.set()
        await asyncio.sleep(3_600)
        return 0

    monkeypatch.setattr(time, "time", lambda: true_time() + ahead)
    monkeypatch.setattr("gridfleet.jobs.schedule.correct_silence", take_long)
    async with api_service(database_url, home, rate_limits="off") as service:
        people, state = People(service), service.state
        jobs = supervise("jobs", lambda: run_jobs(state.settings, state.database), Backoff(first=0.1))
        async with running(jobs), asyncio.timeout(240):
            await begun.wait()
            await people.execute("DELETE FROM procrastinate_periodic_defers")
            ahead = DAY
            while abs(await newest_run(people) - time.time()) > 120:
                await asyncio.sleep(0.1)


async def test_jobs_run_after_the_database_was_away(database_url: str, postgres_url: str, home: Path) -> None:
    """A worker whose listener cannot connect stops without an error. The connection on which it unregisters is kept."""
    async with api_service(database_url, home, rate_limits="off") as service:
        people, state = People(service), service.state
        jobs = supervise("jobs", lambda: run_jobs(state.settings, state.database), Backoff(first=0.1))
        async with (
            running(jobs),
            asyncio.timeout(60),
            await psycopg.AsyncConnection.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server,
        ):
            while not await newest_run(people):
                await asyncio.sleep(0.1)
            await people.execute("DELETE FROM procrastinate_periodic_defers")
            [(name,)] = await people.execute("SELECT current_database()")
            await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            await server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name = 'gridfleet-queue' AND query LIKE 'LISTEN%%'",
                (name,),
            )
            await asyncio.sleep(1)
            await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            while not await newest_run(people):
                await asyncio.sleep(0.1)
