"""Jobs put on the queue within the caller's transaction: rolled back, they were never there."""

from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.types import JSONDict

from gridfleet.kernel.db.pool import Connection

__all__ = ["defer"]

# Never opened: it only writes the library's own statement onto the connection that it is given.
_manager = JobManager(PsycopgConnector())


async def defer(db: Connection, task: str, arguments: JSONDict) -> None:
    """Queues `task` for the jobs process, to run once the transaction has been committed."""
    job = Job(id=None, queue="default", lock=None, queueing_lock=None, task_name=task, task_kwargs=arguments)
    await _manager.defer_job_async(job, connection=db)
