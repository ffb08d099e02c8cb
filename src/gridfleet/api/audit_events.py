"""`/api/v1/audit-events`: the audit log."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import PageQuery, S, SpanQuery, endpoint, org_member
from gridfleet.domains.audit.models import AuditEvent, AuditFilter, SubjectType
from gridfleet.domains.audit.queries import list_events
from gridfleet.kernel.caller import ActorType, OrgRole, OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class AuditQuery(PageQuery, SpanQuery):
    """Filter of audit events, which all given parameters must match: `from` is inclusive, `to` exclusive.

    `event` may be repeated to select several kinds.
    """

    event: Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=50)] | None = None
    subject_type: SubjectType | None = None
    subject_id: UUID | None = None
    plant_id: UUID | None = None
    actor_type: ActorType | None = None
    actor_id: UUID | None = None


@endpoint(
    "GET",
    "/api/v1/audit-events",
    caller=org_member(OrgRole.ORG_ADMIN, everywhere=True),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_audit_events(org: OrgScope | PlatformScope, db: Connection, query: AuditQuery) -> Page[AuditEvent]:
    """List the organisation's audit events, newest first; without `x-org-id`, a SuperAdmin gets those of all."""
    wanted = AuditFilter(
        events=tuple(query.event) if query.event else None,
        subject_type=query.subject_type,
        subject_id=str(query.subject_id) if query.subject_id else None,
        plant_id=query.plant_id,
        actor_type=query.actor_type,
        actor_id=str(query.actor_id) if query.actor_id else None,
        since=query.since,
        until=query.until,
    )
    return await list_events(db, org, wanted, query.paging)
