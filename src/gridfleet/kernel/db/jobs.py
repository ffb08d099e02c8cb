"""Jobs put on the queue within the caller's transaction: rolled back, they were never there. What set them off goes along."""

from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.types import JSONDict
from psycopg.types.json import Jsonb

from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db.pool import Connection

__all__ = ["cause_of", "defer"]

# Never opened: it only writes the library's own statement onto the connection that it is given.
_manager = JobManager(PsycopgConnector())


async def defer(db: Connection, task: str, arguments: JSONDict, *, priority: int = 0) -> None:
    """Queues `task` for the jobs process, to run once the transaction has been committed; what is due with a higher
    `priority`, 0 for all that is due by the clock, runs first."""
    job = Job(id=None, queue="default", lock=None, queueing_lock=None, task_name=task, task_kwargs=arguments, priority=priority)
    queued = await _manager.defer_job_async(job, connection=db)
    cause = current_cause()
    if cause is not None:
        await db.execute("INSERT INTO job_cause (job_id, cause) VALUES (%s, %s)", (queued.id, Jsonb(cause)))


async def cause_of(db: Connection, job_id: int) -> dict[str, str] | None:
    """What set off a job; None where nothing is known, as of periodic ones."""
    cursor = await db.execute("SELECT cause FROM job_cause WHERE job_id = %s", (job_id,))
    row = await cursor.fetchone()
    return row[0] if row else None
