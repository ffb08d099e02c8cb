"""SQL of withdrawn and expired commands.

A withdrawal is recorded in a table of its own, because the row of the command may be locked. From then on no claim takes the
command, regardless of the clocks of other processes, and the sweep for expired commands ends it. The row of the command holds
the reason while the command is still open.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.plants.commands.models import CommandReason, CommandStatus, Transition
from gridfleet.domains.plants.commands.store import json_of, step_of
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

STOPPED: Final = CommandReason("EMERGENCY_STOPPED", "An emergency stop withdrew the command.")

_ENDS: Final = (
    "expires_at = least(c.expires_at, %(now)s), reason = CASE WHEN c.expires_at > %(now)s THEN %(reason)s ELSE c.reason END"
)


async def withdraw_waiting(db: Connection, plant_id: UUID, now: datetime, hold: timedelta) -> bool:
    """Withdraw the commands that a plant has not acknowledged, except EMERGENCY commands. Waits for no lock.

    A claim that began earlier does not see the withdrawal, and a claim that commits during this statement is not in its
    snapshot. So the due time of rows that are not locked is set to infinity, and their claims are read from the locked rows.

    Returns:
        Whether another process may be sending one of the commands: its row is locked, or it was claimed within `hold`.
    """
    cursor = await db.execute(
        "WITH waiting AS (SELECT id FROM plant_command WHERE plant_id = %(plant)s AND due_at IS NOT NULL"
        " AND type <> 'EMERGENCY'),"
        " withdrawn AS (INSERT INTO plant_command_withdrawn (command_id, at) SELECT id, %(now)s FROM waiting"
        " ON CONFLICT DO NOTHING),"
        " free AS (SELECT id, due_at FROM plant_command WHERE plant_id = %(plant)s AND due_at IS NOT NULL"
        " AND type <> 'EMERGENCY' ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),"
        f" ended AS (UPDATE plant_command c SET {_ENDS}, due_at = 'infinity' FROM free WHERE c.id = free.id)"
        " SELECT EXISTS (SELECT FROM free WHERE due_at > %(now)s AND due_at <= %(now)s + %(hold)s)"
        " OR EXISTS (SELECT FROM waiting WHERE id NOT IN (SELECT id FROM free))",
        {"plant": plant_id, "now": now, "hold": hold, "reason": json_of(STOPPED)},
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def withdraw_open(
    db: Connection, org: OrgScope, plant_id: UUID, sub_device_id: UUID | None, now: datetime, reason: CommandReason
) -> list[UUID]:
    """Withdraw every open command of the organisation's plant, or of one of its sub-devices, so that it expires now.

    Returns the ids of the commands.
    """
    cursor = await db.execute(
        "WITH open AS (SELECT c.id, c.due_at FROM plant_command c JOIN plant p ON p.id = c.plant_id"
        " WHERE c.plant_id = %(plant)s AND p.organization_id = %(org)s AND c.finished_at IS NULL"
        " AND (%(device)s::uuid IS NULL OR c.sub_device_id = %(device)s)"
        " ORDER BY c.id FOR NO KEY UPDATE OF c),"
        " withdrawn AS (INSERT INTO plant_command_withdrawn (command_id, at) SELECT id, %(now)s FROM open"
        " WHERE due_at IS NOT NULL ON CONFLICT DO NOTHING)"
        f" UPDATE plant_command c SET {_ENDS} FROM open WHERE c.id = open.id RETURNING c.id",
        {"plant": plant_id, "org": org.organization_id, "device": sub_device_id, "now": now, "reason": json_of(reason)},
    )
    return [row[0] for row in await cursor.fetchall()]


async def end_withdrawn(db: Connection) -> None:
    """End commands whose rows were locked when they were withdrawn.

    Withdrawals of commands that ended or were acknowledged are deleted. Those of plants that are being moved or deleted are
    left for the next call.
    """
    await db.execute(
        "WITH held AS (SELECT c.id, c.due_at, w.at FROM plant_command_withdrawn w JOIN plant_command c ON c.id = w.command_id"
        " JOIN plant p ON p.id = c.plant_id"
        # The plants too: if `expire` changes the rows again, PostgreSQL checks their foreign keys. It would wait for a plant
        # that is being moved or deleted, which waits for the plant's commands.
        " FOR NO KEY UPDATE OF c SKIP LOCKED FOR KEY SHARE OF p SKIP LOCKED),"
        # `withdraw_open` waits for locks, so the withdrawals that are left here come from an emergency stop.
        " ended AS (UPDATE plant_command c SET expires_at = held.at, reason = %s FROM held"
        " WHERE c.id = held.id AND held.due_at IS NOT NULL AND c.expires_at > held.at)"
        " DELETE FROM plant_command_withdrawn w USING held WHERE w.command_id = held.id AND held.due_at IS NULL",
        (json_of(STOPPED),),
    )


async def list_passed(db: Connection, now: datetime, limit: int) -> list[UUID]:
    """Return up to `limit` open commands whose expiry has passed, the earliest expiry first."""
    cursor = await db.execute(
        "SELECT id FROM plant_command WHERE finished_at IS NULL AND expires_at <= %s ORDER BY expires_at LIMIT %s", (now, limit)
    )
    return [row[0] for row in await cursor.fetchall()]


async def expire(
    db: Connection,
    now: datetime,
    reasons: Mapping[CommandStatus, CommandReason],
    only: Sequence[UUID] | None,
    limit: int,
) -> list[Transition]:
    """Expire up to `limit` open commands whose expiry has passed. The time of a step is the command's expiry.

    A command that was withdrawn keeps the reason of the withdrawal.

    Args:
        reasons: The reasons of the others, by the state that they had.
        only: The commands to consider; all if None.
    """
    cursor = db.cursor(row_factory=kwargs_row(step_of))
    await cursor.execute(
        "WITH passed AS (SELECT id, status FROM plant_command WHERE finished_at IS NULL AND expires_at <= %(now)s"
        " AND (%(only)s::uuid[] IS NULL OR id = ANY(%(only)s))"
        " ORDER BY expires_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED),"
        " expired AS (UPDATE plant_command c SET status = 'EXPIRED', finished_at = c.expires_at, due_at = NULL,"
        " reason = coalesce(c.reason, r.reason)"
        " FROM passed JOIN unnest(%(statuses)s::text[], %(reasons)s::jsonb[]) AS r (status, reason)"
        " ON r.status = passed.status WHERE c.id = passed.id RETURNING c.id, c.plant_id, c.expires_at, c.reason),"
        " steps AS (INSERT INTO plant_command_transition (command_id, status, at, reason)"
        " SELECT id, 'EXPIRED', expires_at, reason FROM expired)"
        " SELECT id AS command_id, plant_id, 'EXPIRED' AS status, expires_at AS at, reason FROM expired",
        {
            "now": now,
            "limit": limit,
            "only": None if only is None else list(only),
            "statuses": list(reasons),
            "reasons": [json_of(reason) for reason in reasons.values()],
        },
    )
    return await cursor.fetchall()
