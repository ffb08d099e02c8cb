"""SQL of audit events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.domains.audit.models import AuditEvent, AuditFilter
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import NOT_AHEAD_OF, fetch_count, fetch_value
from gridfleet.kernel.pagination import Paging

_COLUMNS = ", ".join(AuditEvent.__struct_fields__)
_TYPES: Final = {"id": "uuid", "organization_id": "uuid", "plant_id": "uuid", "details": "jsonb", "created_at": "timestamptz"}
_ARRAYS = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in AuditEvent.__struct_fields__)
_CONDITIONS: Final = {
    "events": "event = ANY (%(events)s)",
    "subject_type": "subject_type = %(subject_type)s",
    "subject_id": "subject_id = %(subject_id)s",
    "plant_id": "plant_id = %(plant_id)s",
    "actor_type": "actor_type = %(actor_type)s",
    "actor_id": "actor_id = %(actor_id)s",
    "since": "created_at >= %(since)s",
    "until": "created_at < %(until)s",
}
"""The condition of each member of a filter. Only those in use are in a statement, so that the planner can use their index."""
_ORDER = "ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s"

MOST_DELETED: Final = 50_000
"""The most events that one call of the function `forget_audit_events` deletes."""


def _condition(wanted: AuditFilter) -> str:
    """Return the condition of a filter, which begins with AND unless it is empty."""
    return "".join(f" AND {text}" for name, text in _CONDITIONS.items() if getattr(wanted, name) is not None)


def _parameters(wanted: AuditFilter, paging: Paging | None = None, **more: Any) -> dict[str, Any]:
    page = {"limit": paging.limit, "offset": paging.offset} if paging else {}
    filters = msgspec.structs.asdict(wanted) | {"events": None if wanted.events is None else list(wanted.events)}
    return {**filters, **page, **more}


async def insert_all(db: Connection, events: Sequence[AuditEvent]) -> None:
    """Insert events."""
    rows = [msgspec.structs.asdict(event) | {"details": Jsonb(event.details)} for event in events]
    await db.execute(
        f"INSERT INTO audit_event ({_COLUMNS}) SELECT * FROM unnest({_ARRAYS})",
        tuple([row[name] for row in rows] for name in AuditEvent.__struct_fields__),
    )


async def count_since(db: Connection, event: str, organization_id: UUID | None, since: datetime, most: int) -> int:
    """Return the number of an organisation's events of a kind since `since`, counted up to `most`.

    `organization_id` None counts the events without an organisation.
    """
    return await fetch_count(
        db,
        "SELECT count(*) FROM (SELECT FROM audit_event WHERE created_at > %s AND event = %s"
        f" AND created_at {NOT_AHEAD_OF} AND organization_id IS NOT DISTINCT FROM %s LIMIT %s) lately",
        (since, event, utc_now(), organization_id, most),
    )


async def nth_newest(db: Connection, event: str, subject_id: UUID, details: Mapping[str, Any], n: int) -> datetime | None:
    """Return the time of the `n`-th newest event of a kind about a subject; None if there are fewer.

    Only events without an organisation count whose details contain `details`.
    """
    return await fetch_value(
        db,
        "SELECT created_at FROM audit_event WHERE subject_id = %s AND organization_id IS NULL AND event = %s AND details @> %s"
        f" AND created_at {NOT_AHEAD_OF} ORDER BY created_at DESC, id DESC OFFSET %s LIMIT 1",
        (str(subject_id), event, Jsonb(details), utc_now(), n - 1),
    )


async def nth_newest_in(db: Connection, org: OrgScope, event: str, n: int) -> datetime | None:
    """Return the time of the organisation's `n`-th newest event of a kind within 24 hours; None if there are fewer."""
    return await fetch_value(
        db,
        "SELECT created_at FROM audit_event WHERE organization_id = %s AND event = %s AND created_at > now() - interval '1 day'"
        f" AND created_at {NOT_AHEAD_OF} ORDER BY created_at DESC, id DESC OFFSET %s LIMIT 1",
        (org.organization_id, event, utc_now(), n - 1),
    )


async def list_of_organization(db: Connection, org: OrgScope, wanted: AuditFilter, paging: Paging) -> list[AuditEvent]:
    """Return one page of an organisation's events, newest first."""
    cursor = db.cursor(row_factory=class_row(AuditEvent))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM audit_event WHERE organization_id = %(organization_id)s{_condition(wanted)} {_ORDER}",
        _parameters(wanted, paging, organization_id=org.organization_id),
    )
    return await cursor.fetchall()


async def count_of_organization(db: Connection, org: OrgScope, wanted: AuditFilter) -> int:
    """Return the number of an organisation's events that match."""
    return await fetch_count(
        db,
        f"SELECT count(*) FROM audit_event WHERE organization_id = %(organization_id)s{_condition(wanted)}",
        _parameters(wanted, organization_id=org.organization_id),
    )


async def list_everywhere(db: Connection, scope: PlatformScope, wanted: AuditFilter, paging: Paging) -> list[AuditEvent]:
    """Return one page of all events, newest first."""
    cursor = db.cursor(row_factory=class_row(AuditEvent))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM audit_event WHERE true{_condition(wanted)} {_ORDER}", _parameters(wanted, paging)
    )
    return await cursor.fetchall()


async def count_everywhere(db: Connection, scope: PlatformScope, wanted: AuditFilter) -> int:
    """Return the number of events that match."""
    return await fetch_count(db, f"SELECT count(*) FROM audit_event WHERE true{_condition(wanted)}", _parameters(wanted))


async def delete_old(db: Connection, event: str | None, since: datetime | None, until: datetime) -> int:
    """Delete `MOST_DELETED` events at most, of a kind (None: all) from `since` (None: the first one) to `until` (exclusive).

    The database function never deletes events of the last 23 hours.

    Returns:
        The number of deleted events.
    """
    return await fetch_count(
        db, "SELECT forget_audit_events(%s, coalesce(%s::timestamptz, '-infinity'), %s)", (event, since, until)
    )
