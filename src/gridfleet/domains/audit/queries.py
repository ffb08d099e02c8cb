"""Queries of audit events, of one organisation or of all."""

from gridfleet.domains.audit import store
from gridfleet.domains.audit.models import AuditEvent, AuditFilter
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["list_events"]


async def list_events(db: Connection, scope: OrgScope | PlatformScope, wanted: AuditFilter, paging: Paging) -> Page[AuditEvent]:
    """Return one page of the events that the scope may read, newest first."""
    if isinstance(scope, OrgScope):
        found = await store.list_of_organization(db, scope, wanted, paging)
        return Page.of(found, await store.count_of_organization(db, scope, wanted), paging)
    found = await store.list_everywhere(db, scope, wanted, paging)
    return Page.of(found, await store.count_everywhere(db, scope, wanted), paging)
