"""Recording of audit events, and deletion of old ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.audit import store
from gridfleet.domains.audit.models import AuditEvent, Event, Subject
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import Actor, OrgScope
from gridfleet.kernel.clock import days_before, utc_now
from gridfleet.kernel.db import Connection, Database, after_commit
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.ids import new_id

__all__ = ["delete_old", "record", "record_all_in", "record_in"]

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
        details: More about the event, without secrets.
        most_a_minute: Limit for events that anyone can cause without limit. Further events of the kind in the organisation
            (or without one) are left out. Transactions that commit at the same time may exceed the limit slightly.
    """
    now = utc_now()
    if most_a_minute is not None:
        lately = await store.count_since(db, event, organization_id, now - timedelta(minutes=1), most_a_minute)
        if lately >= most_a_minute:
            return
    await store.insert_all(db, [_event(event, actor, subject, organization_id, details or {}, now)])
    after_commit(db, metrics.AUDIT_EVENTS.labels(event).inc)


async def record_in(
    db: Connection, org: OrgScope, event: Event, subject: Subject, details: Mapping[str, Any] | None = None
) -> None:
    """Add an event about a change in the caller's organisation, as `record` does."""
    await record(db, event, org.actor.as_actor, subject, organization_id=org.organization_id, details=details)


async def record_all_in(
    db: Connection, org: OrgScope, event: Event, subjects: Sequence[tuple[Subject, Mapping[str, Any]]]
) -> None:
    """Add one event for each of the subjects with its details, as `record_in` does, in one statement."""
    now, actor = utc_now(), org.actor.as_actor
    events = [_event(event, actor, subject, org.organization_id, details, now) for subject, details in subjects]
    if events:
        await store.insert_all(db, events)
        after_commit(db, partial(metrics.AUDIT_EVENTS.labels(event).inc, len(events)))


def _event(
    event: Event,
    actor: Actor,
    subject: Subject | None,
    organization_id: UUID | None,
    details: Mapping[str, Any],
    now: datetime,
) -> AuditEvent:
    return AuditEvent(
        id=new_id(),
        event=event,
        organization_id=organization_id,
        actor_type=actor.type,
        actor_id=actor.id,
        subject_type=subject.type if subject else None,
        subject_id=str(subject.id) if subject else None,
        plant_id=subject.plant_id if subject else None,
        details=dict(details),
        ip=actor.ip,
        created_at=now,
    )


async def delete_old(database: Database, days: int, csp_days: int) -> None:
    """Delete events older than `days`, and browsers' reports older than `csp_days`, in short transactions.

    All of them: programs may cause more events in an hour than one transaction deletes, and `days` may have been lowered.
    """
    now = utc_now()
    # Events can be found quickly only by time, so one span is searched. The sweep runs every hour, so older ones are gone.
    until = days_before(now, csp_days)
    for event, first, end in ((None, None, days_before(now, days)), (Event.CSP_REPORTED, until - _CSP_SPAN, until)):
        await in_batches(database, partial(_delete, event=event, since=first, until=end), store.MOST_DELETED)


async def _delete(db: Connection, _: int, *, event: Event | None, since: datetime | None, until: datetime) -> int:
    return await store.delete_old(db, event, since, until)
