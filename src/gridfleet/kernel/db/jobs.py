"""Jobs that are queued in the caller's transaction together with their cause. A rollback removes them."""

from datetime import timedelta
from typing import Final

from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.types import JSONDict
from psycopg.types.json import Jsonb

from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db.pool import Connection
from gridfleet.kernel.db.queries import fetch_value

__all__ = ["ACCOUNTS", "MAILS", "QUEUES", "cause_of", "correct_due", "defer"]

MAILS: Final = "mail"
ACCOUNTS: Final = "accounts"
"""The queue of jobs that anyone can queue, without an account."""
QUEUES: Final = ("default", MAILS, ACCOUNTS)
"""Each queue has workers of its own, so that neither a mail server that hangs nor a flood of requests delays other jobs."""

# Never opened: it only executes the library's statement on the connection that it receives.
_manager = JobManager(PsycopgConnector())

_IS_WAITING: Final = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE task_name = %s AND status = 'todo')"


async def defer(
    db: Connection,
    task: str,
    arguments: JSONDict,
    *,
    queue: str = QUEUES[0],
    lock: str | None = None,
    unless_waiting: bool = False,
) -> None:
    """Queue `task` for the jobs process, to run after the commit.

    Args:
        db: The connection of the caller's transaction.
        task: The name of the task.
        arguments: Its arguments.
        queue: One of QUEUES.
        lock: Jobs with the same lock run one by one.
        unless_waiting: Queue nothing if a job of the task waits, with any arguments. One that is running does not count: it may
            have read its work already. The task must run periodically too: the waiting job may begin, and read its work,
            before this transaction commits.
    """
    # A queueing lock would make the transaction wait until others that queue the same task have ended.
    if unless_waiting and await fetch_value(db, _IS_WAITING, (task,)):
        return
    job = Job(id=None, queue=queue, lock=lock, queueing_lock=None, task_name=task, task_kwargs=arguments)
    queued = await _manager.defer_job_async(job, connection=db)
    cause = current_cause()
    if cause is not None:
        await db.execute("INSERT INTO job_cause (job_id, cause) VALUES (%s, %s)", (queued.id, Jsonb(cause)))


async def cause_of(db: Connection, job_id: int) -> dict[str, str] | None:
    """Return the cause of a job; None if it has none, as periodic jobs."""
    return await fetch_value(db, "SELECT cause FROM job_cause WHERE job_id = %s", (job_id,))


async def correct_due(db: Connection, longest_wait: timedelta) -> int:
    """Make jobs due that are due later than `longest_wait` from now, the longest time between two tries. Returns how many."""
    cursor = await db.execute(
        "UPDATE procrastinate_jobs j SET scheduled_at = now() FROM (SELECT id FROM procrastinate_jobs WHERE status = 'todo'"
        " AND scheduled_at > now() + %s FOR UPDATE SKIP LOCKED) AS ahead WHERE j.id = ahead.id",
        (longest_wait,),
    )
    return cursor.rowcount
