"""Recording of audit events, and deletion of old ones."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.audit import store
from gridfleet.domains.audit.models import AuditEvent, Event, Subject
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.clock import days_before, utc_now
from gridfleet.kernel.db import Connection, after_commit
from gridfleet.kernel.ids import new_id

__all__ = ["delete_old", "record"]

_CSP_SPAN: Final = timedelta(days=14)


async def record(
    db: Connection,
    event: Event,
    actor: Actor,
    subject: Subject | None = None,
    *,
    organization_id: UUID | None = None,
    details: Mapping[str, Any] | None = None,
    most_a_minute: int | None = None,
) -> None:
    """Add an event to the caller's transaction: it is recorded if and only if that is committed.

    Args:
        details: more about the event, without secrets.
        most_a_minute: limit for events that anyone can cause without limit. Further events of the kind in the organisation
            (or without one) are left out. Transactions that commit at the same time may exceed the limit slightly.
    """
    now = utc_now()
    if most_a_minute is not None:
        lately = await store.count_lately(db, event, organization_id, now - timedelta(minutes=1), most_a_minute)
        if lately >= most_a_minute:
            return
    await store.insert(
        db,
        AuditEvent(
            id=new_id(),
            event=event,
            organization_id=organization_id,
            actor_type=actor.type,
            actor_id=actor.id,
            subject_type=subject.type if subject else None,
            subject_id=str(subject.id) if subject else None,
            details=dict(details or {}),
            ip=actor.ip,
            created_at=now,
        ),
    )
    after_commit(db, metrics.AUDIT_EVENTS.labels(event).inc)


async def delete_old(db: Connection, days: int, csp_days: int) -> None:
    """Delete events older than `days`, and browsers' reports older than `csp_days`."""
    now = utc_now()
    await store.delete_old(db, None, None, days_before(now, days))
    # Events can be found quickly only by time, so one span is searched. The sweep runs every hour, so older ones are gone.
    until = days_before(now, csp_days)
    await store.delete_old(db, Event.CSP_REPORTED, until - _CSP_SPAN, until)
