"""`/api/v1/audit-events`: the audit log."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field

from gridfleet.api.http import PageQuery, S, endpoint, org_member
from gridfleet.domains.audit.models import AuditEvent, AuditFilter
from gridfleet.domains.audit.queries import list_events
from gridfleet.kernel.caller import OrgRole, OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class AuditQuery(PageQuery):
    """Filter of audit events: one kind, `from` inclusive, `to` exclusive."""

    event: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    since: datetime | None = Field(alias="from", default=None)
    until: datetime | None = Field(alias="to", default=None)

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the span is not positive."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            yield "from: must be before to"


@endpoint(
    "GET",
    "/api/v1/audit-events",
    caller=org_member(OrgRole.ORG_ADMIN, everywhere=True),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_audit_events(org: OrgScope | PlatformScope, db: Connection, query: AuditQuery) -> Page[AuditEvent]:
    """List audit events of the organisation, or of all for a SuperAdmin without `x-org-id`, newest first."""
    return await list_events(db, org, AuditFilter(query.event, query.since, query.until), query.paging)
