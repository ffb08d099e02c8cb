"""SQL of what plants have not confirmed. Lock the site's row before you write its rows here."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.vcp.confirmation.models import (
    HeldSetpoint,
    Kind,
    LaterSetpoint,
    Predecessor,
    Repetition,
    Unconfirmed,
)
from gridfleet.domains.vcp.sites.due.store import SELECTED, Selection
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Mode

_ROW = "plant_id, kind, command_id, issued_at, nullif(due_at, 'infinity') AS due_at, confirmed_mode, stop_ended_at"


def _unconfirmed(**row: Any) -> Unconfirmed:
    row["kind"] = Kind(row["kind"])
    row["confirmed_mode"] = row["confirmed_mode"] and Mode(row["confirmed_mode"])
    return Unconfirmed(**row)


async def expect(db: Connection, row: Unconfirmed) -> Unconfirmed:
    """Insert what the plant has to confirm, or replace the row of the same kind. Returns the stored row.

    A replaced row loses its `confirmed_mode`: while an earlier confirmation was missing, the plant's mode is unknown. It keeps
    its `stop_ended_at` unless the new row has one.
    """
    [stored] = await expect_all(db, [row])
    return stored


async def expect_all(db: Connection, rows: Sequence[Unconfirmed]) -> list[Unconfirmed]:
    """Insert or replace rows of different plants as `expect` does. Returns the stored rows."""
    cursor = db.cursor(row_factory=kwargs_row(_unconfirmed))
    await cursor.execute(
        "INSERT INTO vcp_unconfirmed AS u (plant_id, kind, command_id, issued_at, due_at, confirmed_mode, stop_ended_at)"
        " SELECT * FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::text[],"
        " %s::timestamptz[]) ON CONFLICT (plant_id, kind) DO UPDATE SET command_id = excluded.command_id,"
        " issued_at = excluded.issued_at, due_at = excluded.due_at, confirmed_mode = NULL,"
        f" stop_ended_at = coalesce(excluded.stop_ended_at, u.stop_ended_at) RETURNING {_ROW}",
        (
            [row.plant_id for row in rows],
            [row.kind for row in rows],
            [row.command_id for row in rows],
            [row.issued_at for row in rows],
            [row.due_at for row in rows],
            [row.confirmed_mode for row in rows],
            [row.stop_ended_at for row in rows],
        ),
    )
    return await cursor.fetchall()


async def record_issues(db: Connection, issued: Sequence[tuple[Unconfirmed, UUID]]) -> None:
    """Store the ids of the commands that issued rows again, and clear the due times.

    Args:
        issued: Each row with the id of its command.
    """
    await db.execute(
        "UPDATE vcp_unconfirmed u SET command_id = n.command_id, due_at = NULL"
        " FROM unnest(%s::uuid[], %s::text[], %s::uuid[]) AS n (plant_id, kind, command_id)"
        " WHERE u.plant_id = n.plant_id AND u.kind = n.kind",
        ([row.plant_id for row, _ in issued], [row.kind for row, _ in issued], [command_id for _, command_id in issued]),
    )


async def set_due(db: Connection, plant_id: UUID, kind: Kind, due_at: datetime | None) -> None:
    """Issue the row again at `due_at`; None means when the plant connects."""
    await db.execute(
        "UPDATE vcp_unconfirmed SET due_at = coalesce(%s, 'infinity'::timestamptz) WHERE plant_id = %s AND kind = %s",
        (due_at, plant_id, kind),
    )


async def follow_stop(db: Connection, plant_id: UUID, issued_at: datetime, now: datetime) -> None:
    """Set the issue time, which orders rows among commands, of all the plant's rows except the mode.

    What the plant has rejected is due: it may have done so because it was stopped, and stay connected for weeks.
    """
    await db.execute(
        "UPDATE vcp_unconfirmed SET issued_at = %s, due_at = CASE WHEN due_at = 'infinity' THEN %s ELSE due_at END"
        " WHERE plant_id = %s AND kind <> 'MODE'",
        (issued_at, now, plant_id),
    )


async def delete(db: Connection, plant_id: UUID, *kinds: Kind) -> None:
    """Delete the plant's rows of these kinds."""
    await db.execute("DELETE FROM vcp_unconfirmed WHERE plant_id = %s AND kind = ANY(%s)", (plant_id, list(kinds)))


_BEGUN = "EXISTS (SELECT FROM plant_command c WHERE c.id = u.command_id AND c.status = 'RECEIVED')"
"""Whether the plant has received the command of a row and not reported its outcome."""


async def concerned(
    db: Connection,
    plant_ids: Collection[UUID],
    command_ids: Collection[UUID],
    refused: Collection[UUID],
    connected: Collection[UUID],
    applied_late: Collection[UUID],
) -> list[UUID]:
    """Return the plants whose rows or setpoints belong to these commands, and the connected plants that `wake` concerns.

    Also those whose mode, schedule or setpoint the service has issued again, because the partner's own may be among the
    commands, and those that have applied a setpoint among the commands `applied_late`.

    Args:
        refused: Those of the commands that are partner commands and that their plants have refused.
    """
    cursor = await db.execute(
        "SELECT plant_id FROM vcp_unconfirmed WHERE plant_id = ANY(%(plants)s) AND command_id = ANY(%(commands)s)"
        " UNION SELECT plant_id FROM vcp_site WHERE plant_id = ANY(%(plants)s) AND setpoint_command_id = ANY(%(commands)s)"
        " UNION SELECT plant_id FROM vcp_site WHERE plant_id = ANY(%(plants)s)"
        " AND (override_command_id = ANY(%(refused)s) OR schedule_command_id = ANY(%(refused)s))"
        " UNION SELECT plant_id FROM plant_command WHERE id = ANY(%(refused)s) AND instruction->>'mode' = 'AUTO'"
        " UNION SELECT s.plant_id FROM vcp_site s JOIN plant_command c ON c.id = s.setpoint_command_id"
        " WHERE s.plant_id = ANY(%(plants)s) AND c.requester_type = 'SYSTEM'"
        " UNION SELECT plant_id FROM vcp_unconfirmed u WHERE plant_id = ANY(%(connected)s)"
        f" AND (due_at IS NOT NULL OR {_BEGUN})"
        " UNION SELECT plant_id FROM plant_command WHERE id = ANY(%(late)s) AND type = 'SITE_SETPOINT'",
        {
            "plants": list(plant_ids),
            "commands": list(command_ids),
            "refused": list(refused),
            "connected": list(connected),
            "late": list(applied_late),
        },
    )
    return [row[0] for row in await cursor.fetchall()]


async def of_plants(db: Connection, plant_ids: Sequence[UUID]) -> list[Unconfirmed]:
    """Return all rows of these plants by plant, modes first."""
    cursor = db.cursor(row_factory=kwargs_row(_unconfirmed))
    await cursor.execute(
        f"SELECT {_ROW} FROM vcp_unconfirmed WHERE plant_id = ANY(%s) ORDER BY plant_id, kind <> 'MODE', kind",
        (list(plant_ids),),
    )
    return await cursor.fetchall()


async def wake(db: Connection, plant_ids: Sequence[UUID], now: datetime, pause: timedelta) -> None:
    """Make the rows due that waited until these plants connect, `pause` after the end of their command at the earliest.

    Emergency stops that ended are due at once. What a plant has received without an outcome is due `pause` after the
    connection: a restart may have interrupted it, or another process may not have read the outcome yet.
    """
    await db.execute(
        "UPDATE vcp_unconfirmed u SET due_at = least(u.due_at, greatest(%(now)s, (SELECT %(pause)s + CASE"
        " WHEN c.finished_at IS NULL THEN greatest(%(now)s, c.received_at) WHEN c.type <> 'EMERGENCY' THEN c.finished_at END"
        " FROM plant_command c WHERE c.id = u.command_id)))"
        f" WHERE u.plant_id = ANY(%(plants)s) AND (u.due_at > %(now)s OR (u.due_at IS NULL AND {_BEGUN}))",
        {"now": now, "pause": pause, "plants": list(plant_ids)},
    )


async def complete_missed(db: Connection, now: datetime) -> int:
    """Complete the rows whose commands have ended: delete confirmed ones, and set the others due.

    Rows of sites that another transaction has locked are skipped. Returns the number of completed rows.
    """
    return await fetch_count(
        db,
        "WITH missed AS (SELECT u.plant_id, u.kind, c.status FROM vcp_unconfirmed u JOIN plant_command c ON c.id = u.command_id"
        " JOIN vcp_site s ON s.plant_id = u.plant_id WHERE u.due_at IS NULL AND c.finished_at IS NOT NULL"
        " FOR NO KEY UPDATE OF s, u SKIP LOCKED),"
        " confirmed AS (DELETE FROM vcp_unconfirmed u USING missed m WHERE m.status = 'APPLIED'"
        " AND u.plant_id = m.plant_id AND u.kind = m.kind),"
        " due AS (UPDATE vcp_unconfirmed u SET due_at = %s FROM missed m WHERE m.status <> 'APPLIED'"
        " AND u.plant_id = m.plant_id AND u.kind = m.kind)"
        " SELECT count(*) FROM missed",
        (now,),
    )


async def lock_due(db: Connection, now: datetime, limit: int, selection: Selection) -> list[UUID]:
    """Lock the sites of ACTIVE plants where something is due, and return the plants' ids.

    Only a mode is due during an emergency stop. Sites that another transaction has locked are skipped.
    """
    cursor = await db.execute(
        "SELECT s.plant_id FROM vcp_unconfirmed u JOIN vcp_site s ON s.plant_id = u.plant_id"
        " JOIN plant p ON p.id = u.plant_id WHERE u.due_at <= %(now)s AND p.lifecycle_status = 'ACTIVE'"
        f" AND (u.kind = 'MODE' OR s.override_mode IS DISTINCT FROM 'EMERGENCY_STOP') AND {SELECTED}"
        " ORDER BY u.due_at LIMIT %(limit)s FOR KEY SHARE OF p SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED",
        {"now": now, "limit": limit, **selection.parameters},
    )
    return list({row[0] for row in await cursor.fetchall()})


async def keep_fallback(db: Connection, plant_id: UUID) -> None:
    """Record that the plant must confirm the fallback too, if the service's own command with it and the limits is unconfirmed.

    Call it before the row of the limits gets a partner's command, which does not contain the fallback.
    """
    await db.execute(
        "INSERT INTO vcp_unconfirmed (plant_id, kind, command_id, issued_at, due_at)"
        " SELECT plant_id, 'FALLBACK', command_id, issued_at, due_at FROM vcp_unconfirmed u"
        " WHERE plant_id = %s AND kind = 'LIMITS' AND NOT EXISTS (SELECT FROM vcp_command c WHERE c.id = u.command_id)"
        " ON CONFLICT DO NOTHING",
        (plant_id,),
    )


async def is_due(db: Connection, plant_id: UUID, now: datetime) -> bool:
    """Return whether something is due at the plant."""
    cursor = await db.execute("SELECT FROM vcp_unconfirmed WHERE plant_id = %s AND due_at <= %s", (plant_id, now))
    return cursor.rowcount > 0


async def predecessor(db: Connection, plant_id: UUID, types: Collection[CommandType], before: UUID) -> Predecessor | None:
    """Return the newest command of these types before the command `before`, or None.

    Commands that the plant has refused do not count, except emergency stops. The result is also None if a former organisation
    sent the newest one, unless it is an emergency stop, which stays in force when the plant moves.
    """
    cursor = db.cursor(row_factory=class_row(Predecessor))
    await cursor.execute(
        "WITH newest AS (SELECT * FROM vcp_command WHERE plant_id = %s"
        " AND command_type IN ('MODE_CHANGE', 'EMERGENCY', 'SCHEDULE')"
        " AND command_type = ANY(%s) AND id < %s AND issued_at IS NOT NULL"
        " AND (status NOT IN ('REJECTED', 'FAILED') OR command_type = 'EMERGENCY') ORDER BY id DESC LIMIT 1)"
        " SELECT c.id, c.api_key_id, c.created_at, c.routing_key, c.payload FROM newest c"
        " JOIN plant p ON p.id = c.plant_id JOIN vcp_site s ON s.plant_id = c.plant_id"
        " WHERE c.command_type = 'EMERGENCY' OR (p.organization_id = c.organization_id AND s.opened_at <= c.created_at)",
        (plant_id, list(types), before),
    )
    return await cursor.fetchone()


_APPLIED = "(c.status = 'APPLIED' OR (c.status = 'EXPIRED' AND c.reason->>'code' = 'APPLIED_LATE'))"


_IS_NEWEST = (
    "NOT EXISTS (SELECT FROM plant_command later WHERE later.plant_id = {0}.plant_id AND later.issued_at > {0}.issued_at"
    " AND later.type IN ('SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY')"
    " AND later.status NOT IN ('REJECTED', 'FAILED', 'EXPIRED'))"
)
"""Whether no later setpoint or mode replaces this one."""


async def was_applied(db: Connection, command_id: UUID) -> bool:
    """Return whether the plant has applied the mode or schedule of a partner command, at once or when it was issued again.

    A command that repeats it has the same type and mode, or the same revision of the same schedule with intervals or without.
    """
    cursor = await db.execute(
        "SELECT FROM vcp_command WHERE id = %(id)s AND status = 'APPLIED' UNION ALL"
        " (SELECT FROM plant_command o JOIN plant_command c ON c.plant_id = o.plant_id AND c.issued_at >= o.issued_at"
        f" WHERE o.id = %(id)s AND c.type = o.type AND {_APPLIED}"
        " AND c.instruction->'mode' IS NOT DISTINCT FROM o.instruction->'mode'"
        " AND (c.instruction->'schedule') - 'intervals' IS NOT DISTINCT FROM (o.instruction->'schedule') - 'intervals'"
        " AND (c.instruction->'schedule'->'intervals' = '[]') IS NOT DISTINCT FROM"
        " (o.instruction->'schedule'->'intervals' = '[]') LIMIT 1)",
        {"id": command_id},
    )
    return cursor.rowcount > 0


_SINCE_OPENED = (
    "c.* FROM plant_command c JOIN vcp_site s ON s.plant_id = c.plant_id AND s.opened_at <= c.issued_at"
    " WHERE c.plant_id = %(plant)s"
)


async def setpoint_in_force(db: Connection, plant_id: UUID, applied_late: Collection[UUID] = ()) -> HeldSetpoint | None:
    """Return the setpoint that is in force at the plant according to its commands.

    It is the newest setpoint or mode of the plant's organisation that was not refused and has not failed or expired; None for a
    mode. Setpoints among `applied_late` count although they have expired. Plants count the duration of a partner's own setpoint
    from its arrival, which is known once it is applied.
    """
    cursor = db.cursor(row_factory=class_row(HeldSetpoint))
    await cursor.execute(
        "SELECT id AS command_id, issued_at, instruction->'schedule' AS schedule,"
        " CASE WHEN requester_type <> 'SYSTEM' AND status = 'APPLIED' THEN finished_at ELSE issued_at END"
        " + make_interval(secs => (instruction->'params'->>'durationSeconds')::float8) AS ends_at"
        f" FROM ((SELECT {_SINCE_OPENED} AND c.type IN ('SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY')"
        " AND c.status NOT IN ('REJECTED', 'FAILED', 'EXPIRED') ORDER BY c.issued_at DESC, c.id DESC LIMIT 1)"
        f" UNION ALL SELECT {_SINCE_OPENED} AND c.id = ANY(%(late)s) AND c.type = 'SITE_SETPOINT'"
        " ORDER BY issued_at DESC, id DESC LIMIT 1) AS newest WHERE type = 'SITE_SETPOINT'",
        {"plant": plant_id, "late": list(applied_late)},
    )
    return await cursor.fetchone()


async def repeated_auto(db: Connection, plant_id: UUID, of: Collection[UUID]) -> UUID | None:
    """Return the AUTO among the partner commands `of` that the service has issued again, if no later mode replaces it."""
    cursor = await db.execute(
        "SELECT c.id FROM plant_command c JOIN plant_command r ON r.plant_id = c.plant_id AND r.issued_at = c.issued_at"
        " WHERE c.plant_id = %(plant)s AND c.id = ANY(%(of)s) AND c.instruction->>'mode' = 'AUTO' AND r.id > c.id"
        " AND r.requester_type = 'SYSTEM' AND r.type = 'MODE_CHANGE' AND r.instruction->>'mode' = 'AUTO'"
        " AND NOT EXISTS (SELECT FROM vcp_unconfirmed u WHERE u.plant_id = c.plant_id AND u.kind = 'MODE'"
        " AND u.issued_at <> c.issued_at)"
        " AND NOT EXISTS (SELECT FROM plant_command later WHERE later.plant_id = c.plant_id AND later.issued_at > c.issued_at"
        " AND later.type IN ('MODE_CHANGE', 'EMERGENCY') AND later.status NOT IN ('REJECTED', 'FAILED', 'EXPIRED'))",
        {"plant": plant_id, "of": list(of)},
    )
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def find_repetition(db: Connection, setpoint: UUID, of: Collection[UUID]) -> Repetition | None:
    """Return the setpoint if it is one of the service that repeats one of the commands `of`, which partners sent."""
    cursor = db.cursor(row_factory=class_row(Repetition))
    await cursor.execute(
        f"SELECT r.issued_at, {_IS_NEWEST.format('r')} AS is_newest FROM plant_command r CROSS JOIN LATERAL"
        " (SELECT c.id FROM plant_command c WHERE c.plant_id = r.plant_id AND c.issued_at < r.issued_at"
        " AND c.type = 'SITE_SETPOINT' AND c.requester_type <> 'SYSTEM' ORDER BY c.issued_at DESC, c.id DESC LIMIT 1) AS first"
        " WHERE r.id = %s AND r.requester_type = 'SYSTEM' AND first.id = ANY(%s)",
        (setpoint, list(of)),
    )
    return await cursor.fetchone()


async def later_setpoints(db: Connection, modes: Sequence[Unconfirmed], now: datetime) -> list[LaterSetpoint]:
    """Return the partners' setpoints whose places are after those of modes that follow now.

    Only setpoints that are in force, and that no later setpoint or mode replaces.
    """
    cursor = db.cursor(row_factory=class_row(LaterSetpoint))
    await cursor.execute(
        "SELECT s.plant_id, (c.instruction->>'powerKw')::float8 AS power_kw, c.issued_at, c.status <> 'PENDING' AS is_sent,"
        f" s.setpoint_ends_at AS ends_at, CASE WHEN NOT {_APPLIED} THEN c.expires_at END AS expires_at"
        " FROM unnest(%(plants)s::uuid[], %(places)s::timestamptz[]) AS m (plant_id, place)"
        " JOIN vcp_site s ON s.plant_id = m.plant_id JOIN plant_command c ON c.id = s.setpoint_command_id"
        f" WHERE c.issued_at > m.place AND (c.finished_at IS NULL OR {_APPLIED})"
        f" AND coalesce(s.setpoint_ends_at > %(now)s, true) AND {_IS_NEWEST.format('c')}",
        {"plants": [row.plant_id for row in modes], "places": [row.issued_at for row in modes], "now": now},
    )
    return await cursor.fetchall()
