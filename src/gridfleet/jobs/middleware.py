"""Middleware around every job: restore its cause, measure and count it, log its end."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import psycopg
import structlog
from procrastinate import JobContext
from procrastinate.worker import Worker

from gridfleet.kernel import metrics
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.jobs import cause_of
from gridfleet.kernel.mail.delivery import MailRefused

__all__ = ["job_middleware", "start_at_zero"]

log = structlog.get_logger(__name__)


def start_at_zero(names: Iterable[str]) -> None:
    """Count the jobs with these names from 0: `increase` of a counter whose first sample is 1 is 0, and no alert would fire."""
    for name in names:
        for outcome in ("done", "failed"):
            metrics.JOBS.labels(name, outcome)


def job_middleware(database: Database) -> Callable[[Callable[[], Awaitable[Any]], JobContext, Worker], Awaitable[Any]]:
    """Return the worker middleware that wraps each job."""

    async def run_observed(run: Callable[[], Awaitable[Any]], context: JobContext, worker: Worker) -> Any:
        job = context.job
        name = job.task_name
        cause = await _cause(database, job.id or 0)
        started = time.perf_counter()
        outcome = "failed"
        with at_work(f"job {name}", cause, job=name, job_id=job.id or 0):
            try:
                result = await run()
                outcome = "done"
            except asyncio.CancelledError:
                outcome = "cancelled"
                log.info("job cancelled", attempts=job.attempts + 1)
                raise
            except Exception as error:
                if isinstance(error, MailRefused):
                    outcome = "refused"  # an address that does not exist is no failure of the service
                log.warning("job failed", attempts=job.attempts + 1, error=type(error).__name__)
                raise
            finally:
                seconds = time.perf_counter() - started
                metrics.JOBS.labels(name, outcome).inc()
                metrics.JOB_SECONDS.labels(name).observe(seconds)
            log.log(_level(cause), "job done", ms=round(seconds * 1000, 1))
            return result

    return run_observed


async def _cause(database: Database, job_id: int) -> dict[str, str] | None:
    try:
        async with database.transaction() as db:
            return await cause_of(db, job_id)
    except psycopg.OperationalError as error:
        # The job may not need the database. If it does, it reports the failure itself.
        log.warning("cannot read the cause of a job", error=type(error).__name__)
        return None


def _level(cause: object) -> int:
    """Return INFO for jobs that a user caused and DEBUG for periodic jobs, which run every minute."""
    return logging.INFO if cause is not None else logging.DEBUG
