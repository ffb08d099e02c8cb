"""SQL of the command log, and of the sub-devices that partner commands name."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.domains.vcp.models import Device, LogEntry, NewLogEntry, PendingCommand
from gridfleet.domains.vcp.sites.models import ScheduleInterval, SetSchedule
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_value, with_raw_json
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import CommandType

_ENTRY = ", ".join(LogEntry.__struct_fields__)
_MAY_HOLD = (
    "{0}.issued_at IS NOT NULL AND {0}.command_type IN ('MODE_CHANGE', 'EMERGENCY', 'SCHEDULE')"
    " AND ({0}.status NOT IN ('REJECTED', 'FAILED') OR {0}.command_type = 'EMERGENCY')"
)
"""Whether an entry is of a mode or schedule that the plant has not refused. Emergency stops hold at any plant."""


class EarlierLogEntry(NamedTuple):
    """The log entry of an earlier command with the same messageId or bytes. `issued_at` is None if the service refused it."""

    id: UUID
    api_key_id: UUID
    issued_at: datetime | None
    digest: bytes
    message_id: str | None
    correlation_id: str | None
    site_id: str | None
    command_type: str | None
    status: str
    ack_status: str
    rejection_reason: str | None
    acknowledged_at: datetime


class Followed(NamedTuple):
    """A log entry whose plant command has changed state, with the fields of an acknowledgement."""

    id: UUID
    organization_id: UUID
    api_key_id: UUID
    plant_id: UUID
    message_id: str | None
    correlation_id: str | None
    site_id: str | None
    command_type: str | None
    status: str
    ack_status: str
    rejection_reason: str | None
    acknowledged_at: datetime


async def hold_plant(db: Connection, organization_id: UUID, plant_id: UUID) -> bool:
    """Return whether the plant belongs to the organisation.

    Locks the plant against deletion and moves until the transaction ends.
    """
    cursor = await db.execute(
        "SELECT FROM plant WHERE id = %s AND organization_id = %s FOR KEY SHARE", (plant_id, organization_id)
    )
    return cursor.rowcount > 0


async def find_device(db: Connection, plant_id: UUID, external_id: str) -> Device | None:
    """Return the plant's sub-device with this external id, or None."""
    cursor = db.cursor(row_factory=class_row(Device))
    await cursor.execute(
        "SELECT id, external_id, template_id FROM sub_device WHERE plant_id = %s AND external_id = %s", (plant_id, external_id)
    )
    return await cursor.fetchone()


_EARLIER = ", ".join(EarlierLogEntry._fields)


async def find_claim(db: Connection, organization_id: UUID, message_id: str) -> EarlierLogEntry | None:
    """Return the entry that has claimed this messageId, or None."""
    cursor = db.cursor(row_factory=class_row(EarlierLogEntry))
    await cursor.execute(
        f"SELECT {_EARLIER} FROM vcp_command WHERE organization_id = %s AND message_id = %s AND claims_id",
        (organization_id, message_id),
    )
    return await cursor.fetchone()


async def release_claim(db: Connection, entry_id: UUID) -> None:
    """Let another message claim the messageId of an entry."""
    await db.execute("UPDATE vcp_command SET claims_id = false WHERE id = %s", (entry_id,))


async def find_refused(db: Connection, api_key_id: UUID, digest: bytes) -> EarlierLogEntry | None:
    """Return the newest entry of a message with this digest that did not claim its messageId, or None."""
    cursor = db.cursor(row_factory=class_row(EarlierLogEntry))
    await cursor.execute(
        f"SELECT {_EARLIER} FROM vcp_command WHERE api_key_id = %s AND digest = %s AND NOT claims_id"
        " ORDER BY created_at DESC LIMIT 1",
        (api_key_id, digest),
    )
    return await cursor.fetchone()


async def has_refused_payloads(db: Connection, api_key_id: UUID, most: int, within: timedelta) -> bool:
    """Return whether the log holds at least `most` payloads of this key that were refused in the last `within`."""
    has = await fetch_value(
        db,
        "SELECT count(*) = %(most)s FROM (SELECT FROM vcp_command WHERE api_key_id = %(key)s"
        " AND created_at > now() - %(within)s AND issued_at IS NULL AND payload <> '{}' LIMIT %(most)s) AS refused",
        {"key": api_key_id, "most": most, "within": within},
    )
    return bool(has)


async def insert_log_entry(db: Connection, entry: NewLogEntry) -> None:
    """Insert an entry into the command log.

    Raises:
        psycopg.errors.UniqueViolation: Another entry has claimed the messageId.
    """
    fields = msgspec.structs.asdict(entry)
    fields["payload"] = Jsonb(entry.payload)
    names = ", ".join(fields)
    placeholders = ", ".join(f"%({name})s" for name in fields)
    await db.execute(f"INSERT INTO vcp_command ({names}) VALUES ({placeholders})".encode(), fields)


async def follow(db: Connection, steps: Sequence[tuple[UUID, str, str | None, str | None, datetime]]) -> list[Followed]:
    """Move open entries to the states of their plant commands.

    Args:
        steps: (command id, status, new acknowledgement or None, rejection reason or None, time of the step) of each command.

    Returns:
        The entries that were updated. Ids without an open entry are ignored.
    """
    cursor = db.cursor(row_factory=class_row(Followed))
    await cursor.execute(
        "WITH step AS (SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[])"
        " AS s (id, status, ack, reason, at)),"
        " held AS (SELECT c.id FROM vcp_command c JOIN step ON step.id = c.id"
        " WHERE c.status IN ('PENDING', 'SENT', 'RECEIVED') ORDER BY c.id FOR NO KEY UPDATE OF c)"
        " UPDATE vcp_command c SET status = step.status, ack_status = coalesce(step.ack, c.ack_status),"
        " rejection_reason = step.reason,"
        " executed_at = CASE step.status WHEN 'APPLIED' THEN step.at END,"
        " acknowledged_at = CASE WHEN step.ack IS NULL THEN c.acknowledged_at ELSE step.at END"
        " FROM held JOIN step ON step.id = held.id WHERE c.id = held.id"
        f" RETURNING {', '.join(f'c.{name}' for name in Followed._fields)}",
        tuple([step[column] for step in steps] for column in range(5)),
    )
    return await cursor.fetchall()


async def pending(db: Connection, org: OrgScope, plant_id: UUID, since: datetime, most: int) -> list[PendingCommand]:
    """Return the newest `most` of the partner commands since `since` that the plant has not finished, oldest first."""
    cursor = db.cursor(row_factory=class_row(PendingCommand))
    await cursor.execute(
        "SELECT id, message_id, command_type, status, issued_at, expires_at FROM vcp_command"
        " WHERE plant_id = %s AND organization_id = %s AND created_at >= %s AND status IN ('PENDING', 'SENT', 'RECEIVED')"
        " ORDER BY created_at DESC, id DESC LIMIT %s",
        (plant_id, org.organization_id, since, most),
    )
    return (await cursor.fetchall())[::-1]


async def recent(
    db: Connection, org: OrgScope, plant_id: UUID, since: datetime, open_since: datetime, most: int, most_bytes: int
) -> list[LogEntry]:
    """Return the plant's commands since `since`, and the open ones since `open_since`, newest first, at most `most`.

    Args:
        most_bytes: The size of payloads, as JSON, after which no further command is returned.
    """
    cursor = with_raw_json(db.cursor(row_factory=class_row(LogEntry)))
    await cursor.execute(
        f"SELECT {_ENTRY} FROM (SELECT *, sum(size) OVER (ORDER BY created_at DESC, id DESC) - size AS bytes_before FROM"
        f" (SELECT {_ENTRY}, octet_length(payload::text) AS size FROM vcp_command WHERE plant_id = %s AND organization_id = %s"
        " AND created_at >= %s AND (created_at >= %s OR status IN ('PENDING', 'SENT', 'RECEIVED'))"
        " ORDER BY created_at DESC, id DESC LIMIT %s)"
        " AS newest) AS sized WHERE bytes_before < %s ORDER BY created_at DESC, id DESC",
        (plant_id, org.organization_id, open_since, since, most, most_bytes),
    )
    return await cursor.fetchall()


async def log_page(
    db: Connection, org: OrgScope, plant_id: UUID, command_type: CommandType | None, paging: Paging
) -> list[LogEntry]:
    """Return one page of the plant's commands, newest first. `command_type` None means all types."""
    cursor = with_raw_json(db.cursor(row_factory=class_row(LogEntry)))
    await cursor.execute(
        f"SELECT {_ENTRY} FROM vcp_command WHERE plant_id = %(plant)s AND organization_id = %(org)s{_of(command_type)}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"plant": plant_id, "org": org.organization_id, "type": command_type, "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def log_count(db: Connection, org: OrgScope, plant_id: UUID, command_type: CommandType | None) -> int:
    """Return the number of entries in the list."""
    return await fetch_count(
        db,
        f"SELECT count(*) FROM vcp_command WHERE plant_id = %(plant)s AND organization_id = %(org)s{_of(command_type)}",
        {"plant": plant_id, "org": org.organization_id, "type": command_type},
    )


def _of(command_type: CommandType | None) -> str:
    """Return the condition for a type. One that also allows all types would read all of them to find one."""
    return "" if command_type is None else " AND command_type = %(type)s"


async def schedule_set_before(db: Connection, org: OrgScope, plant_id: UUID, moment: datetime) -> SetSchedule | None:
    """Return the newest schedule or cancellation that was accepted until `moment` and that the plant has not refused.

    None if the plant has moved between the two times: a move ends what partners have set, also for a plant that comes back.
    """
    cursor = await db.execute(
        "SELECT created_at, payload FROM (SELECT created_at, payload FROM vcp_command WHERE plant_id = %(plant)s"
        " AND organization_id = %(org)s AND command_type = 'SCHEDULE' AND status NOT IN ('REJECTED', 'FAILED')"
        " AND issued_at IS NOT NULL AND created_at <= %(at)s ORDER BY created_at DESC, id DESC LIMIT 1) AS newest"
        " WHERE NOT EXISTS (SELECT FROM vcp_site s WHERE s.plant_id = %(plant)s AND s.opened_at > newest.created_at"
        " AND s.opened_at <= %(at)s)",
        {"plant": plant_id, "org": org.organization_id, "at": moment},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    set_at, payload = row
    intervals = msgspec.convert(payload.get("intervals", []), list[ScheduleInterval])
    intervals.sort(key=lambda interval: interval.start)
    return SetSchedule(set_at, payload.get("scheduleId", ""), payload.get("revision", 0), intervals)


async def delete_log_entries_of(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete at most `limit` ended log entries of the organisation's plant. Returns how many were deleted."""
    cursor = await db.execute(
        "DELETE FROM vcp_command WHERE id = ANY (ARRAY("
        "SELECT id FROM vcp_command WHERE plant_id = (SELECT id FROM plant WHERE id = %s AND organization_id = %s)"
        " AND status NOT IN ('PENDING', 'SENT', 'RECEIVED') ORDER BY created_at, id LIMIT %s FOR UPDATE SKIP LOCKED))",
        (plant_id, org.organization_id, limit),
    )
    return cursor.rowcount


async def delete_log_entries(db: Connection, before: UUID, limit: int) -> int:
    """Delete at most `limit` ended log entries with ids below `before`. Returns how many were deleted.

    The entries of the mode and the schedule of a site stay: they are read again when the plant refuses a later one. So do those
    of an emergency stop that a plant kept when it moved, which the site does not name. While the plant has not confirmed a mode
    or schedule, the newest entry before it stays that the plant did not refuse: the site names the unconfirmed one.
    """
    cursor = await db.execute(
        "DELETE FROM vcp_command WHERE id IN (SELECT id FROM vcp_command c WHERE id < %s"
        " AND status NOT IN ('PENDING', 'SENT', 'RECEIVED') AND NOT EXISTS (SELECT FROM vcp_site s"
        " WHERE s.plant_id = c.plant_id AND (c.id IN (s.override_command_id, s.schedule_command_id)"
        " OR (c.command_type = 'EMERGENCY' AND s.override_mode = 'EMERGENCY_STOP')))"
        f" AND ({_MAY_HOLD.format('c')} AND EXISTS (SELECT FROM vcp_unconfirmed u WHERE u.plant_id = c.plant_id"
        " AND u.kind = CASE c.command_type WHEN 'SCHEDULE' THEN 'SCHEDULE' ELSE 'MODE' END)"
        f" AND NOT EXISTS (SELECT FROM vcp_command later WHERE later.plant_id = c.plant_id AND later.id > c.id"
        f" AND (later.command_type = 'SCHEDULE') = (c.command_type = 'SCHEDULE') AND {_MAY_HOLD.format('later')}"
        " AND later.status NOT IN ('PENDING', 'SENT', 'RECEIVED'))) IS NOT TRUE"
        " ORDER BY id LIMIT %s)",
        (before, limit),
    )
    return cursor.rowcount
