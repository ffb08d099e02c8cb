"""SQL of the lengths and ages of the database's queues."""

from typing import Final

from gridfleet.kernel.db import Connection

_MOST: Final = 10_000
"""Maximum number of rows to count in a queue: a metric must not read through a backlog of millions."""

_DUE: Final = {
    "outbox": "SELECT due_at AS since FROM outbox WHERE due_at <= now() ORDER BY id",
    # A job that is due immediately has no scheduled time; the time of its queueing is in its events. One that waits for the end
    # of another with the same lock is not due: a job may run for longer than the alert of stuck queues waits.
    "jobs": "SELECT coalesce(scheduled_at, (SELECT min(at) FROM procrastinate_events e WHERE e.job_id = j.id)) AS since"
    " FROM procrastinate_jobs j WHERE status = 'todo' AND (scheduled_at IS NULL OR scheduled_at <= now())"
    " AND NOT EXISTS (SELECT FROM procrastinate_jobs d WHERE d.status = 'doing' AND d.lock = j.lock) ORDER BY id",
    "notifications": "SELECT due_at AS since FROM notification_log WHERE due_at <= now() ORDER BY due_at",
    "commands": "SELECT due_at AS since FROM plant_command WHERE due_at <= now() ORDER BY due_at",
    "partner_events": "SELECT at AS since FROM partner_event ORDER BY id",
    "roll_ups_set_aside": "SELECT failed_at AS since FROM telemetry_set_aside ORDER BY failed_at",
}
_QUERY: Final = " UNION ALL ".join(
    f"SELECT '{queue}', count(*), coalesce(extract(epoch FROM now() - min(since)), 0)::float8 FROM ({rows} LIMIT {_MOST}) q"
    for queue, rows in _DUE.items()
)


async def waiting(db: Connection) -> list[tuple[str, int, float]]:
    """Return (queue, due rows, seconds that the oldest has been due) of every queue, in one statement."""
    cursor = await db.execute(_QUERY.encode())
    return await cursor.fetchall()
