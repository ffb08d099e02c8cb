"""Queries of audit events, of one organisation or of all, and limits by what was recorded."""

from collections.abc import Mapping
from typing import Any

from gridfleet.domains.audit import store
from gridfleet.domains.audit.models import AuditEvent, AuditFilter, Event, Subject
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.kernel.rate_limit import refuse_within_a_day

__all__ = ["limit_a_day", "limit_a_day_in", "list_events"]


async def limit_a_day(
    db: Connection, event: Event, subject: Subject, most: int, details: Mapping[str, Any] | None = None
) -> None:
    """Check that fewer than `most` events about a subject, with these details, were recorded within 24 hours.

    For events without an organisation. Transactions that commit at the same time may exceed the limit slightly.

    Raises:
        TooManyRequests: There were as many.
    """
    refuse_within_a_day(await store.nth_newest(db, event, subject.id, details or {}, most))


async def limit_a_day_in(db: Connection, org: OrgScope, event: Event, most: int) -> None:
    """Check that fewer than `most` events of the organisation were recorded within 24 hours.

    Transactions that commit at the same time may exceed the limit slightly.

    Raises:
        TooManyRequests: There were `most` or more.
    """
    refuse_within_a_day(await store.nth_newest_in(db, org, event, most))


async def list_events(db: Connection, scope: OrgScope | PlatformScope, wanted: AuditFilter, paging: Paging) -> Page[AuditEvent]:
    """Return one page of the events that the scope may read, newest first."""
    if isinstance(scope, OrgScope):
        found = await store.list_of_organization(db, scope, wanted, paging)
        return Page.of(found, await store.count_of_organization(db, scope, wanted), paging)
    found = await store.list_everywhere(db, scope, wanted, paging)
    return Page.of(found, await store.count_everywhere(db, scope, wanted), paging)
