"""SQL of sites, their schedules, and the log of orders. A site's row is locked before its orders are written."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.vcp.models import (
    Constraints,
    Device,
    Fallback,
    LogEntry,
    ModeOverride,
    NewEntry,
    PendingCommand,
    ScheduleInterval,
    Site,
)
from gridfleet.kernel.caller import OrgScope, SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Mode

_SITE = (
    "SELECT p.id AS plant_id, p.organization_id, p.lifecycle_status, s.constraints, s.fallback_mode, s.fallback_after_seconds,"
    " s.fallback_since, s.silent_from, s.override_mode, s.override_set_by, s.override_set_at, s.override_expires_at,"
    " s.override_command_id, s.schedule_id, s.schedule_revision, s.schedule_command_id,"
    " CASE WHEN s.schedule_active THEN (SELECT max(end_at) FROM vcp_interval i WHERE i.plant_id = p.id) END"
    " AS schedule_ends_at FROM plant p"
)
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_ENTRY = ", ".join(LogEntry.__struct_fields__)


class EarlierEntry(NamedTuple):
    """An entry that an order with the same messageId, or the same bytes, has made before."""

    id: UUID
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
    """An entry whose command went on, and who is to be told if the partner's last word changed."""

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


class DueInterval(NamedTuple):
    """A step of a schedule whose time has come, with the limits of its site."""

    plant_id: UUID
    start_at: datetime
    end_at: datetime
    power_kw: float
    schedule_id: str
    schedule_revision: int
    constraints: Constraints
    lifecycle_status: str


def _site(**row: Any) -> Site:
    override = None
    if row["override_mode"] is not None:
        override = ModeOverride(
            Mode(row["override_mode"]), row["override_set_by"], row["override_set_at"], row["override_expires_at"]
        )
    mode = row["fallback_mode"]
    return Site(
        plant_id=row["plant_id"],
        lifecycle_status=row["lifecycle_status"],
        silent_from=row["silent_from"],
        constraints=msgspec.convert(row["constraints"], Constraints),
        fallback=Fallback(None if mode is None else Mode(mode), row["fallback_after_seconds"]),
        fallback_since=row["fallback_since"],
        override=override,
        override_command_id=row["override_command_id"],
        schedule_id=row["schedule_id"],
        schedule_revision=row["schedule_revision"],
        schedule_ends_at=row["schedule_ends_at"],
        schedule_command_id=row["schedule_command_id"],
    )


def _due(**row: Any) -> DueInterval:
    row["constraints"] = msgspec.convert(row["constraints"], Constraints)
    return DueInterval(**row)


async def open_site(db: Connection, system: SystemScope, organization_id: UUID, plant_id: UUID) -> None:
    """Makes the row of a plant of the organisation, unless it stands."""
    await db.execute(
        "INSERT INTO vcp_site (plant_id) SELECT id FROM plant WHERE id = %s AND organization_id = %s ON CONFLICT DO NOTHING",
        (plant_id, organization_id),
    )


async def lock_site(db: Connection, system: SystemScope, organization_id: UUID, plant_id: UUID) -> Site | None:
    """The site, if it was opened, held until the transaction ends."""
    cursor = db.cursor(row_factory=kwargs_row(_site))
    await cursor.execute(
        f"{_SITE} JOIN vcp_site s ON s.plant_id = p.id WHERE p.id = %s AND p.organization_id = %s FOR NO KEY UPDATE OF s",
        (plant_id, organization_id),
    )
    return await cursor.fetchone()


async def save_site(db: Connection, system: SystemScope, site: Site) -> None:
    """Writes a locked site but for its intervals."""
    override = site.override
    await db.execute(
        "UPDATE vcp_site SET constraints = %(constraints)s, fallback_mode = %(fallback_mode)s,"
        " fallback_after_seconds = %(fallback_after)s, fallback_since = %(fallback_since)s, silent_from = %(silent_from)s,"
        " override_mode = %(override_mode)s, override_set_by = %(override_by)s, override_set_at = %(override_at)s,"
        " override_expires_at = %(override_expires)s, override_command_id = %(override_command)s,"
        " schedule_id = %(schedule_id)s, schedule_revision = %(schedule_revision)s,"
        " schedule_active = %(schedule_active)s, schedule_command_id = %(schedule_command)s WHERE plant_id = %(plant)s",
        {
            "plant": site.plant_id,
            "constraints": Jsonb(msgspec.to_builtins(site.constraints)),
            "fallback_mode": site.fallback.mode,
            "fallback_after": site.fallback.after_seconds,
            "fallback_since": site.fallback_since,
            "silent_from": site.silent_from,
            "override_mode": override and override.mode,
            "override_by": override and override.set_by,
            "override_at": override and override.set_at,
            "override_expires": override and override.expires_at,
            "override_command": site.override_command_id,
            "schedule_id": site.schedule_id,
            "schedule_revision": site.schedule_revision,
            "schedule_active": site.schedule_ends_at is not None,
            "schedule_command": site.schedule_command_id,
        },
    )


async def delete_intervals(db: Connection, system: SystemScope, plant_id: UUID) -> None:
    """Forgets the site's schedule."""
    await db.execute("DELETE FROM vcp_interval WHERE plant_id = %s", (plant_id,))


async def insert_intervals(db: Connection, system: SystemScope, plant_id: UUID, intervals: Sequence[ScheduleInterval]) -> None:
    """The steps of a new schedule."""
    await db.execute(
        "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw)"
        " SELECT %s, i.* FROM unnest(%s::timestamptz[], %s::timestamptz[], %s::float8[]) AS i",
        (
            plant_id,
            [one.start for one in intervals],
            [one.end for one in intervals],
            [one.power_kw for one in intervals],
        ),
    )


async def find_device(db: Connection, system: SystemScope, plant_id: UUID, external_id: str) -> Device | None:
    """A sub-device of the plant."""
    cursor = db.cursor(row_factory=class_row(Device))
    await cursor.execute(
        "SELECT id, external_id, template_id FROM sub_device WHERE plant_id = %s AND external_id = %s", (plant_id, external_id)
    )
    return await cursor.fetchone()


_EARLIER = ", ".join(EarlierEntry._fields)


async def find_claim(db: Connection, system: SystemScope, organization_id: UUID, message_id: str) -> EarlierEntry | None:
    """The entry that has used a messageId up."""
    cursor = db.cursor(row_factory=class_row(EarlierEntry))
    await cursor.execute(
        f"SELECT {_EARLIER} FROM vcp_command WHERE organization_id = %s AND message_id = %s AND claims_id",
        (organization_id, message_id),
    )
    return await cursor.fetchone()


async def find_refused(db: Connection, system: SystemScope, api_key_id: UUID, digest: bytes) -> EarlierEntry | None:
    """The newest entry of a message with these bytes that did not use its messageId up."""
    cursor = db.cursor(row_factory=class_row(EarlierEntry))
    await cursor.execute(
        f"SELECT {_EARLIER} FROM vcp_command WHERE api_key_id = %s AND digest = %s AND NOT claims_id"
        " ORDER BY created_at DESC LIMIT 1",
        (api_key_id, digest),
    )
    return await cursor.fetchone()


async def insert_entry(db: Connection, system: SystemScope, entry: NewEntry) -> None:
    """Writes an order into the log; `UniqueViolation` when another one has used its messageId up."""
    fields = msgspec.structs.asdict(entry)
    fields["payload"] = Jsonb(entry.payload)
    names = ", ".join(fields)
    places = ", ".join(f"%({name})s" for name in fields)
    await db.execute(f"INSERT INTO vcp_command ({names}) VALUES ({places})".encode(), fields)


async def follow(
    db: Connection, system: SystemScope, steps: Sequence[tuple[UUID, str, str | None, str | None, datetime]]
) -> list[Followed]:
    """Moves open entries on: (id, status, new word to the partner or None, reason or None, when). Answers those that moved."""
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
        tuple([step[place] for step in steps] for place in range(5)),
    )
    return await cursor.fetchall()


async def withdraw(db: Connection, system: SystemScope, command_ids: Sequence[UUID]) -> None:
    """Ends the overrides and schedules of orders that their plants would not have; an emergency stop stays."""
    await db.execute(
        "WITH lost AS (UPDATE vcp_site SET override_mode = NULL, override_set_by = NULL, override_set_at = NULL,"
        " override_expires_at = NULL, override_command_id = NULL"
        " WHERE override_command_id = ANY(%(ids)s) AND override_mode <> 'EMERGENCY_STOP'),"
        " ended AS (UPDATE vcp_site SET schedule_active = false, schedule_command_id = NULL"
        " WHERE schedule_command_id = ANY(%(ids)s) RETURNING plant_id)"
        " DELETE FROM vcp_interval i USING ended WHERE i.plant_id = ended.plant_id",
        {"ids": list(command_ids)},
    )


async def claim_due_intervals(db: Connection, system: SystemScope, now: datetime, limit: int) -> list[DueInterval]:
    """Steps whose time has come, done from now on, of sites that no override holds. The sites stay locked."""
    cursor = db.cursor(row_factory=kwargs_row(_due))
    await cursor.execute(
        "WITH due AS (SELECT i.plant_id, i.start_at FROM vcp_interval i JOIN vcp_site s ON s.plant_id = i.plant_id"
        " WHERE i.done_at IS NULL AND i.start_at <= %(now)s AND s.schedule_active"
        " AND (i.end_at <= %(now)s OR s.override_mode IS NULL OR s.override_expires_at <= %(now)s)"
        " ORDER BY i.start_at LIMIT %(limit)s FOR NO KEY UPDATE OF s SKIP LOCKED),"
        " done AS (UPDATE vcp_interval i SET done_at = %(now)s FROM due"
        " WHERE i.plant_id = due.plant_id AND i.start_at = due.start_at AND i.done_at IS NULL RETURNING i.*)"
        " SELECT d.plant_id, d.start_at, d.end_at, d.power_kw, s.schedule_id, s.schedule_revision, s.constraints,"
        " p.lifecycle_status FROM done d JOIN vcp_site s ON s.plant_id = d.plant_id JOIN plant p ON p.id = d.plant_id",
        {"now": now, "limit": limit},
    )
    return await cursor.fetchall()


async def reopen_interval(db: Connection, system: SystemScope, plant_id: UUID, now: datetime) -> None:
    """The step that holds at `now` is to be done again."""
    await db.execute(
        "UPDATE vcp_interval SET done_at = NULL"
        " WHERE plant_id = %(plant)s AND start_at <= %(now)s AND end_at > %(now)s AND done_at IS NOT NULL",
        {"plant": plant_id, "now": now},
    )


async def end_schedules(db: Connection, system: SystemScope, now: datetime, limit: int) -> int:
    """Schedules whose last step is over hold no longer; how many."""
    cursor = await db.execute(
        "WITH over AS (SELECT s.plant_id FROM vcp_site s WHERE s.schedule_active AND NOT EXISTS"
        " (SELECT FROM vcp_interval i WHERE i.plant_id = s.plant_id AND i.end_at > %s) LIMIT %s"
        " FOR NO KEY UPDATE OF s SKIP LOCKED),"
        " ended AS (UPDATE vcp_site s SET schedule_active = false FROM over WHERE s.plant_id = over.plant_id"
        " RETURNING s.plant_id)"
        " DELETE FROM vcp_interval i USING ended WHERE i.plant_id = ended.plant_id",
        (now, limit),
    )
    return cursor.rowcount


async def claim_ended_overrides(db: Connection, system: SystemScope, now: datetime, limit: int) -> list[Site]:
    """Sites whose override has ended, locked; it is still in them."""
    cursor = db.cursor(row_factory=kwargs_row(_site))
    await cursor.execute(
        f"{_SITE} JOIN vcp_site s ON s.plant_id = p.id WHERE s.override_expires_at <= %s ORDER BY s.override_expires_at"
        " LIMIT %s FOR NO KEY UPDATE OF s SKIP LOCKED",
        (now, limit),
    )
    return await cursor.fetchall()


async def claim_silent(db: Connection, system: SystemScope, now: datetime, limit: int) -> list[Site]:
    """Sites whose partner has been silent for as long as their fallback waits, locked; none under an override."""
    cursor = db.cursor(row_factory=kwargs_row(_site))
    await cursor.execute(
        f"{_SITE} JOIN vcp_site s ON s.plant_id = p.id WHERE s.fallback_mode IS NOT NULL"
        " AND s.fallback_after_seconds IS NOT NULL AND s.fallback_since IS NULL AND s.override_mode IS NULL"
        " AND s.silent_from + make_interval(secs => s.fallback_after_seconds) <= %s ORDER BY s.silent_from LIMIT %s"
        " FOR NO KEY UPDATE OF s SKIP LOCKED",
        (now, limit),
    )
    return await cursor.fetchall()


async def find_site(db: Connection, org: OrgScope, plant_id: UUID) -> Site | None:
    """A plant that the caller may see, with what partners have set there."""
    cursor = db.cursor(row_factory=kwargs_row(_seen))
    await cursor.execute(
        f"{_SITE} LEFT JOIN vcp_site s ON s.plant_id = p.id WHERE p.id = %(plant)s AND p.organization_id = %(org)s"
        " AND (%(plants)s::uuid[] IS NULL OR p.id = ANY(%(plants)s))",
        {"plant": plant_id, **_visible(org)},
    )
    return await cursor.fetchone()


def _seen(**row: Any) -> Site:
    """A site of which partners may never have spoken."""
    return _site(**row | {"constraints": row["constraints"] or {}, "silent_from": row["silent_from"] or _LONG_AGO})


def _visible(org: OrgScope) -> dict[str, Any]:
    return {"org": org.organization_id, "plants": None if org.plant_ids is None else list(org.plant_ids)}


async def intervals(db: Connection, org: OrgScope, plant_id: UUID) -> list[ScheduleInterval]:
    """The steps of the schedule that holds, by time."""
    cursor = db.cursor(row_factory=class_row(ScheduleInterval))
    await cursor.execute(
        "SELECT i.start_at AS start, extract(epoch FROM i.end_at - i.start_at)::int AS duration_seconds, i.power_kw"
        " FROM vcp_interval i JOIN plant p ON p.id = i.plant_id WHERE i.plant_id = %s AND p.organization_id = %s"
        " ORDER BY i.start_at",
        (plant_id, org.organization_id),
    )
    return await cursor.fetchall()


async def pending(db: Connection, org: OrgScope, plant_id: UUID) -> list[PendingCommand]:
    """Orders that the plant has not finished, the oldest first."""
    cursor = db.cursor(row_factory=class_row(PendingCommand))
    await cursor.execute(
        "SELECT id, message_id, command_type, status, issued_at, expires_at FROM vcp_command"
        " WHERE plant_id = %s AND organization_id = %s AND status IN ('PENDING', 'SENT', 'RECEIVED') ORDER BY created_at, id",
        (plant_id, org.organization_id),
    )
    return await cursor.fetchall()


async def recent(db: Connection, org: OrgScope, plant_id: UUID, since: datetime, most: int) -> list[LogEntry]:
    """The plant's orders since then and those that are open, newest first."""
    cursor = db.cursor(row_factory=class_row(LogEntry))
    await cursor.execute(
        f"SELECT {_ENTRY} FROM vcp_command WHERE plant_id = %s AND organization_id = %s"
        " AND (created_at >= %s OR status IN ('PENDING', 'SENT', 'RECEIVED')) ORDER BY created_at DESC, id DESC LIMIT %s",
        (plant_id, org.organization_id, since, most),
    )
    return await cursor.fetchall()


async def log_page(
    db: Connection, org: OrgScope, plant_id: UUID, command_type: CommandType | None, paging: Paging
) -> list[LogEntry]:
    """One page of the plant's orders, of one type or of all, newest first."""
    cursor = db.cursor(row_factory=class_row(LogEntry))
    await cursor.execute(
        f"SELECT {_ENTRY} FROM vcp_command WHERE {_LOGGED} ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**_logged(org, plant_id, command_type), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def log_count(db: Connection, org: OrgScope, plant_id: UUID, command_type: CommandType | None) -> int:
    """How many there are."""
    cursor = await db.execute(f"SELECT count(*) FROM vcp_command WHERE {_LOGGED}", _logged(org, plant_id, command_type))
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


_LOGGED = "plant_id = %(plant)s AND organization_id = %(org)s AND (%(type)s::text IS NULL OR command_type = %(type)s)"


def _logged(org: OrgScope, plant_id: UUID, command_type: CommandType | None) -> dict[str, Any]:
    return {"plant": plant_id, "org": org.organization_id, "type": command_type}


async def delete_entries(db: Connection, system: SystemScope, before: UUID, limit: int) -> int:
    """Deletes at most `limit` entries of the log with ids below `before`, but not what is still open; how many."""
    cursor = await db.execute(
        "DELETE FROM vcp_command WHERE id IN (SELECT id FROM vcp_command WHERE id < %s"
        " AND status NOT IN ('PENDING', 'SENT', 'RECEIVED') ORDER BY id LIMIT %s)",
        (before, limit),
    )
    return cursor.rowcount
