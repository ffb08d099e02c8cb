"""SQL of audit events."""

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.domains.audit.models import AuditEvent, AuditFilter
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import Paging

_COLUMNS = "id, event, organization_id, actor_type, actor_id, subject_type, subject_id, details, ip, created_at"
_WANTED = (
    "(%(event)s::text IS NULL OR event = %(event)s) AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)"
    " AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)"
)
_ORDER = "ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s"


def _parameters(wanted: AuditFilter, paging: Paging | None = None, **more: Any) -> dict[str, Any]:
    page = {"limit": paging.limit, "offset": paging.offset} if paging else {}
    return {"event": wanted.event, "since": wanted.since, "until": wanted.until, **page, **more}


async def insert(db: Connection, event: AuditEvent) -> None:
    """Insert an event."""
    await db.execute(
        f"INSERT INTO audit_event ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            event.id,
            event.event,
            event.organization_id,
            event.actor_type,
            event.actor_id,
            event.subject_type,
            event.subject_id,
            Jsonb(event.details),
            event.ip,
            event.created_at,
        ),
    )


async def count_lately(db: Connection, event: str, organization_id: UUID | None, since: datetime, most: int) -> int:
    """Return the number of an organisation's events of a kind since `since`, counted up to `most`.

    `organization_id` None counts the events without an organisation.
    """
    return await fetch_count(
        db,
        "SELECT count(*) FROM (SELECT FROM audit_event WHERE created_at > %s AND event = %s"
        " AND organization_id IS NOT DISTINCT FROM %s LIMIT %s) lately",
        (since, event, organization_id, most),
    )


async def list_of_organization(db: Connection, org: OrgScope, wanted: AuditFilter, paging: Paging) -> list[AuditEvent]:
    """Return one page of an organisation's events, newest first."""
    cursor = db.cursor(row_factory=class_row(AuditEvent))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM audit_event WHERE organization_id = %(organization_id)s AND {_WANTED} {_ORDER}",
        _parameters(wanted, paging, organization_id=org.organization_id),
    )
    return await cursor.fetchall()


async def count_of_organization(db: Connection, org: OrgScope, wanted: AuditFilter) -> int:
    """Return the number of an organisation's events that match."""
    return await fetch_count(
        db,
        f"SELECT count(*) FROM audit_event WHERE organization_id = %(organization_id)s AND {_WANTED}",
        _parameters(wanted, organization_id=org.organization_id),
    )


async def list_everywhere(db: Connection, scope: PlatformScope, wanted: AuditFilter, paging: Paging) -> list[AuditEvent]:
    """Return one page of all events, newest first."""
    cursor = db.cursor(row_factory=class_row(AuditEvent))
    await cursor.execute(f"SELECT {_COLUMNS} FROM audit_event WHERE {_WANTED} {_ORDER}", _parameters(wanted, paging))
    return await cursor.fetchall()


async def count_everywhere(db: Connection, scope: PlatformScope, wanted: AuditFilter) -> int:
    """Return the number of events that match."""
    return await fetch_count(db, f"SELECT count(*) FROM audit_event WHERE {_WANTED}", _parameters(wanted))


async def delete_old(db: Connection, event: str | None, since: datetime | None, until: datetime) -> None:
    """Delete at most 50,000 events of a kind (None: of every kind) from `since` (None: the first) to before `until`.

    The database keeps the events of the last 23 hours.
    """
    await db.execute("SELECT forget_audit_events(%s, coalesce(%s::timestamptz, '-infinity'), %s)", (event, since, until))
