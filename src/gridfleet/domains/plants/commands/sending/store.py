"""SQL of the queue of commands to send. Rows are locked in the order of their ids, or skipped if they are locked."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.plants.commands.models import DueCommand, Transition
from gridfleet.domains.plants.commands.store import step_of
from gridfleet.kernel.db import Connection

_NOT_WITHDRAWN = "NOT EXISTS (SELECT FROM plant_command_withdrawn w WHERE w.command_id = {}.id)"


async def plants_to_claim(db: Connection, now: datetime, hold: timedelta, limit: int) -> list[UUID]:
    """Return plants of which `claim` can claim `limit` commands.

    All plants with waiting commands are read, and nothing is locked.
    """
    cursor = await db.execute(_CHOOSE.encode(), {"now": now, "hold": hold, "most": 2 * limit})
    return [plant_id for (plant_id,) in await cursor.fetchall()]


async def claim(
    db: Connection, now: datetime, plant_ids: Sequence[UUID], hold: timedelta, repeat: timedelta, limit: int
) -> list[DueCommand]:
    """Claim up to `limit` due commands of those plants that are ACTIVE, and return them in the order in which they were issued.

    Claimed commands are due again after `hold`. A command that was never sent waits for the earlier ones of its plant that were
    not sent either or are being sent again, unless it is an EMERGENCY. Locked and withdrawn commands are left out.
    Organisations take turns; an EMERGENCY is the first of its organisation.
    """
    # A claim that a crash of the database undoes makes the commands due again, and a slow disk must not make all of them late.
    await db.execute("SET LOCAL synchronous_commit = off")
    cursor = db.cursor(row_factory=class_row(DueCommand))
    values = {"plants": plant_ids, "now": now, "hold": hold, "repeat": repeat, "limit": limit, "most": 2 * limit}
    await cursor.execute(_CLAIM.encode(), values)
    claimed = await cursor.fetchall()
    if not claimed:
        return []
    earlier = await _earlier_due(db, now, now + hold, {command.plant_id for command in claimed})
    return [command._replace(again_at=min(command.again_at, earlier.get(command.id, command.again_at))) for command in claimed]


_WAITS = "c.due_at IS NOT NULL AND c.expires_at > %(now)s AND " + _NOT_WITHDRAWN.format("c")
_NEXT_PLANT = "SELECT plant_id FROM plant_command WHERE due_at IS NOT NULL{condition} ORDER BY plant_id LIMIT 1"


# CTEs that end with `next`, the commands to claim of the plants in `waiting`.
_NEXT = (
    "WITH RECURSIVE waiting AS ({waiting}),"
    " free AS MATERIALIZED (SELECT first.id, first.plant_id, first.type, first.due_at, first.issued_at"
    f" FROM waiting w CROSS JOIN LATERAL (SELECT c.* FROM plant_command c WHERE c.plant_id = w.plant_id AND {_WAITS}"
    " AND (c.status = 'PENDING' OR c.due_at <= %(now)s + %(hold)s) ORDER BY c.issued_at, c.id LIMIT 1) AS first"
    " WHERE first.status = 'PENDING' AND first.type <> 'EMERGENCY' AND first.due_at <= %(now)s"
    # Commands that were sent before may have been lost with the plant's session, and are sent again first.
    " AND NOT EXISTS (SELECT FROM plant_command_wake k WHERE k.plant_id = first.plant_id)"
    " UNION ALL SELECT c.id, c.plant_id, c.type, c.due_at, c.issued_at FROM plant_command c"
    f" WHERE c.due_at <= %(now)s AND (c.status <> 'PENDING' OR c.type = 'EMERGENCY') AND {_WAITS}{{of_plants}}),"
    " next AS (SELECT f.id, f.plant_id, f.due_at, row_number() OVER (PARTITION BY p.organization_id"
    " ORDER BY f.type <> 'EMERGENCY', f.due_at, f.issued_at, f.id) AS turn"
    " FROM free f CROSS JOIN LATERAL (SELECT organization_id FROM plant"
    " WHERE id = f.plant_id AND lifecycle_status = 'ACTIVE' OFFSET 0) AS p"
    # Twice as many: another process may have locked the first ones.
    " ORDER BY turn, f.due_at LIMIT %(most)s)"
)
_CHOOSE = (
    # One look-up in the index for each plant, however many of its commands wait.
    _NEXT.format(
        waiting=f"({_NEXT_PLANT.format(condition='')}) UNION ALL"
        f" SELECT ({_NEXT_PLANT.format(condition=' AND plant_id > w.plant_id')}) FROM waiting w WHERE w.plant_id IS NOT NULL",
        of_plants="",
    )
    + " SELECT DISTINCT plant_id FROM next"
)
_CLAIM = (
    _NEXT.format(waiting="SELECT unnest(%(plants)s::uuid[]) AS plant_id", of_plants=" AND c.plant_id = ANY(%(plants)s)")
    # IS TRUE: otherwise the planner may choose the index on due times, and read every command that waits for another one.
    + ", due AS (SELECT c.id FROM plant_command c JOIN next n ON n.id = c.id WHERE (c.due_at <= %(now)s) IS TRUE"
    " ORDER BY n.turn, n.due_at LIMIT %(limit)s FOR NO KEY UPDATE OF c SKIP LOCKED),"
    " claimed AS (UPDATE plant_command c SET due_at = %(now)s + %(hold)s, attempts = c.attempts + 1"
    " FROM due WHERE c.id = due.id RETURNING c.*)"
    " SELECT id, plant_id, type, target, instruction, requester_type, issued_at, expires_at, status, attempts,"
    " due_at AS claim, %(now)s + %(repeat)s AS again_at, cause FROM claimed ORDER BY issued_at, id"
)


async def _earlier_due(db: Connection, now: datetime, claim: datetime, plant_ids: Collection[UUID]) -> dict[UUID, datetime]:
    """Return when the first of the earlier sent commands of its plant is due, not before `claim`.

    The result has the commands claimed until `claim` that have one. Commands that are claimed together do not count.
    """
    cursor = await db.execute(
        "SELECT id, greatest(earlier, %(claim)s) FROM (SELECT id, type, due_at,"
        " min(due_at) FILTER (WHERE status = 'SENT' AND due_at <> %(claim)s)"
        " OVER (PARTITION BY plant_id ORDER BY issued_at, id ROWS UNBOUNDED PRECEDING) AS earlier"
        " FROM plant_command e WHERE plant_id = ANY(%(plants)s) AND due_at IS NOT NULL AND expires_at > %(now)s"
        f" AND {_NOT_WITHDRAWN.format('e')}) AS waiting"
        " WHERE due_at = %(claim)s AND type <> 'EMERGENCY' AND earlier IS NOT NULL",
        {"now": now, "claim": claim, "plants": list(plant_ids)},
    )
    return dict(await cursor.fetchall())


async def mark_sent(db: Connection, now: datetime, commands: Sequence[DueCommand]) -> list[Transition]:
    """Mark commands as sent. PENDING commands become SENT; those that were acknowledged in the meantime keep their state.

    Returns:
        The steps of the commands that became SENT.
    """
    cursor = db.cursor(row_factory=kwargs_row(step_of))
    await cursor.execute(
        "WITH ours AS (SELECT c.id, c.status, u.claim, u.next FROM plant_command c"
        " JOIN unnest(%(ids)s::uuid[], %(claims)s::timestamptz[], %(nexts)s::timestamptz[]) AS u (id, claim, next)"
        " ON u.id = c.id WHERE c.due_at IS NOT NULL AND c.expires_at > %(now)s ORDER BY c.id FOR NO KEY UPDATE OF c),"
        " sent AS (UPDATE plant_command c SET status = 'SENT', sent_at = coalesce(c.sent_at, greatest(%(now)s, c.issued_at)),"
        " due_at = CASE WHEN c.due_at = ours.claim THEN ours.next ELSE c.due_at END"
        " FROM ours WHERE c.id = ours.id RETURNING c.id, c.plant_id, c.sent_at, ours.status AS was),"
        " steps AS (INSERT INTO plant_command_transition (command_id, status, at)"
        " SELECT id, 'SENT', sent_at FROM sent WHERE was = 'PENDING')"
        " SELECT id AS command_id, plant_id, 'SENT' AS status, sent_at AS at, NULL AS reason FROM sent WHERE was = 'PENDING'",
        {
            "now": now,
            "ids": [command.id for command in commands],
            "claims": [command.claim for command in commands],
            "nexts": [command.again_at for command in commands],
        },
    )
    return await cursor.fetchall()


async def postpone(db: Connection, commands: Sequence[tuple[DueCommand, datetime]]) -> None:
    """Set when commands are due again, unless they were woken after their claim.

    Args:
        commands: (command, when it is due again).
    """
    await db.execute(
        "WITH ours AS (SELECT c.id, u.next FROM plant_command c"
        " JOIN unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[]) AS u (id, claim, next)"
        " ON u.id = c.id AND u.claim = c.due_at ORDER BY c.id FOR NO KEY UPDATE OF c)"
        " UPDATE plant_command c SET due_at = ours.next FROM ours WHERE c.id = ours.id",
        (
            [command.id for command, _ in commands],
            [command.claim for command, _ in commands],
            [due for _, due in commands],
        ),
    )


async def note_connected(db: Connection, plant_ids: Collection[UUID], now: datetime) -> None:
    """Note plants that have just connected and have unacknowledged commands, for `wake`, and notify the senders."""
    await db.execute(
        "WITH held AS (SELECT p.id FROM plant p WHERE p.id = ANY(%(plants)s)"
        " AND EXISTS (SELECT FROM plant_command c WHERE c.plant_id = p.id AND c.due_at IS NOT NULL)"
        " ORDER BY p.id FOR KEY SHARE),"
        " noted AS (INSERT INTO plant_command_wake AS w (plant_id, connected_at) SELECT id, %(now)s FROM held ORDER BY id"
        # Not DO NOTHING: a sender that deletes the row may have read the commands before this connection.
        " ON CONFLICT (plant_id) DO UPDATE SET connected_at = w.connected_at RETURNING 1)"
        " SELECT pg_notify('plant_command_due', '') FROM noted LIMIT 1",
        {"plants": list(plant_ids), "now": now},
    )


async def wake(
    db: Connection, now: datetime, unsent_due: datetime, sent_due: datetime, most_plants: int, most_commands: int
) -> None:
    """Set when the unacknowledged commands of plants that have connected are due. Waits for no lock.

    Organisations take turns, in random order. Plants that another sender wakes are left out; those that are being moved or
    deleted, or whose commands are locked, stay noted. If others are left, the senders are notified, unless all plants stay
    noted.

    Args:
        unsent_due: The latest due time of commands that were not sent.
        sent_due: The latest due time of commands that were sent. Those of one plant are due together, so that they are sent in
            their order.
        most_plants: The most plants.
        most_commands: The number of commands at which no further plant is added.
    """
    await db.execute(
        _WAKE.encode(),
        {
            "now": now,
            "unsent": unsent_due,
            "sent": sent_due,
            "plants": most_plants,
            "commands": most_commands,
        },
    )


_WAKE = (
    "WITH turns AS (SELECT w.plant_id,"
    " row_number() OVER (PARTITION BY p.organization_id ORDER BY w.connected_at, w.plant_id) AS turn"
    " FROM plant_command_wake w JOIN plant p ON p.id = w.plant_id),"
    # At random: one plant may have so many commands that the turns of the claim end with it.
    " places AS (SELECT plant_id, row_number() OVER (ORDER BY turn, random()) AS place FROM turns),"
    # Locked before commands are counted: otherwise senders would choose the same plants, and all but one would wake none.
    # The plants too: PostgreSQL checks the foreign keys of rows that the transaction changes a second time, as the claim does.
    # It would wait for a plant that is being moved or deleted, which waits for the plant's commands.
    " noted AS (SELECT w.plant_id, p.place FROM plant_command_wake w JOIN places p ON p.plant_id = w.plant_id"
    " JOIN plant ON plant.id = w.plant_id"
    " ORDER BY p.place LIMIT %(plants)s FOR UPDATE OF w SKIP LOCKED FOR KEY SHARE OF plant SKIP LOCKED),"
    " counted AS (SELECT n.plant_id, sum(c.number) OVER (ORDER BY n.place) - c.number AS before"
    " FROM noted n CROSS JOIN LATERAL"
    " (SELECT count(*) AS number FROM plant_command WHERE plant_id = n.plant_id AND due_at IS NOT NULL) AS c),"
    " chosen AS (SELECT plant_id FROM counted WHERE before < %(commands)s),"
    " waiting AS (SELECT c.*, CASE c.status WHEN 'SENT' THEN"
    " least(min(c.due_at) FILTER (WHERE c.status = 'SENT') OVER (PARTITION BY c.plant_id), %(sent)s)"
    " ELSE %(unsent)s END AS due FROM chosen n CROSS JOIN LATERAL (SELECT id, plant_id, status, due_at, attempts"
    f" FROM plant_command c WHERE c.plant_id = n.plant_id AND {_WAITS} OFFSET 0) AS c),"
    # A plant may connect every second, with a thousand commands.
    " late AS MATERIALIZED (SELECT id, plant_id, status, due FROM waiting WHERE due_at > due OR attempts > 0),"
    " free AS (SELECT id FROM plant_command WHERE (status = 'SENT' AND id = ANY (ARRAY("
    "SELECT id FROM late WHERE status = 'SENT'))) OR (status = 'PENDING' AND id = ANY (ARRAY("
    "SELECT id FROM late WHERE status = 'PENDING'))) FOR NO KEY UPDATE SKIP LOCKED),"
    " woken AS (UPDATE plant_command c SET due_at = least(c.due_at, late.due), attempts = 0 FROM late"
    " WHERE c.id = late.id AND c.id = ANY (ARRAY(SELECT id FROM free))),"
    " done AS (DELETE FROM plant_command_wake w USING chosen n WHERE w.plant_id = n.plant_id"
    " AND w.plant_id NOT IN (SELECT plant_id FROM late WHERE id NOT IN (SELECT id FROM free)) RETURNING 1)"
    " SELECT pg_notify('plant_command_due', '') FROM plant_command_wake"
    # Not if no note was deleted: the sender would repeat this at once, until others release their locks.
    " WHERE EXISTS (SELECT FROM done) AND plant_id NOT IN (SELECT plant_id FROM chosen) LIMIT 1"
)


async def correct_due(db: Connection) -> int:
    """Make commands due whose due time is more than three minutes in the future, except withdrawn ones. Returns how many.

    Otherwise no command is due later than two minutes from now.
    """
    cursor = await db.execute(
        "UPDATE plant_command c SET due_at = now() FROM (SELECT id FROM plant_command"
        " WHERE due_at > now() + interval '3 minutes' AND due_at < 'infinity' ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)"
        " AS ahead WHERE c.id = ahead.id"
    )
    return cursor.rowcount
