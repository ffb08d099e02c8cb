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


_VALID: Final = "c.expires_at > now() AND NOT EXISTS (SELECT FROM plant_command_withdrawn x WHERE x.command_id = c.id)"


async def waiting_commands(db: Connection) -> tuple[int, float]:
    """Return (number, seconds that the first has been due) of the commands that a sender may claim now.

    The others wait until their plant is active again, or for an earlier command, which is tried again every few seconds while
    its plant is away. As the sender does, this reads each plant with waiting commands.
    """
    cursor = await db.execute(
        "WITH RECURSIVE waiting AS ((SELECT plant_id FROM plant_command WHERE due_at IS NOT NULL ORDER BY plant_id LIMIT 1)"
        " UNION ALL SELECT (SELECT plant_id FROM plant_command WHERE due_at IS NOT NULL AND plant_id > w.plant_id"
        " ORDER BY plant_id LIMIT 1) FROM waiting w WHERE w.plant_id IS NOT NULL),"
        " due AS (SELECT f.plant_id, f.due_at FROM waiting w CROSS JOIN LATERAL (SELECT c.* FROM plant_command c"
        f" WHERE c.plant_id = w.plant_id AND c.due_at IS NOT NULL AND {_VALID}"
        " AND (c.status = 'PENDING' OR c.due_at <= now() + interval '5 s') ORDER BY c.issued_at, c.id LIMIT 1) AS f"
        " WHERE f.status = 'PENDING' AND f.type <> 'EMERGENCY' AND f.due_at <= now()"
        " AND NOT EXISTS (SELECT FROM plant_command_wake k WHERE k.plant_id = f.plant_id)"
        " UNION ALL SELECT c.plant_id, c.due_at FROM plant_command c"
        f" WHERE c.due_at <= now() AND (c.status <> 'PENDING' OR c.type = 'EMERGENCY') AND {_VALID})"
        f" SELECT least(count(*), {_MOST}), coalesce(extract(epoch FROM now() - min(due_at)), 0)::float8 FROM due d"
        " WHERE EXISTS (SELECT FROM plant p WHERE p.id = d.plant_id AND p.lifecycle_status = 'ACTIVE')"
    )
    return (await cursor.fetchall())[0]
