"""Jobs that are queued in the caller's transaction together with their cause. A rollback removes them."""

from typing import Final

from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.types import JSONDict
from psycopg.types.json import Jsonb

from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db.pool import Connection
from gridfleet.kernel.db.queries import fetch_value

__all__ = ["MAILS", "QUEUES", "cause_of", "defer"]

MAILS: Final = "mail"
QUEUES: Final = ("default", MAILS)
"""Each queue has workers of its own, so that a mail server that hangs delays no other job."""

# Never opened: it only executes the library's statement on the connection that it receives.
_manager = JobManager(PsycopgConnector())


async def defer(db: Connection, task: str, arguments: JSONDict, *, queue: str = QUEUES[0], lock: str | None = None) -> None:
    """Queue `task` for the jobs process, to run after the commit.

    Args:
        db: The connection of the caller's transaction.
        task: The name of the task.
        arguments: Its arguments.
        queue: One of QUEUES.
        lock: Jobs with the same lock run one by one.
    """
    job = Job(id=None, queue=queue, lock=lock, queueing_lock=None, task_name=task, task_kwargs=arguments)
    queued = await _manager.defer_job_async(job, connection=db)
    cause = current_cause()
    if cause is not None:
        await db.execute("INSERT INTO job_cause (job_id, cause) VALUES (%s, %s)", (queued.id, Jsonb(cause)))


async def cause_of(db: Connection, job_id: int) -> dict[str, str] | None:
    """Return the cause of a job; None if it has none, as periodic jobs."""
    return await fetch_value(db, "SELECT cause FROM job_cause WHERE job_id = %s", (job_id,))
