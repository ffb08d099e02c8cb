"""Organisations as SuperAdmins manage them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.organizations import store
from gridfleet.domains.organizations.errors import OrganizationInUse, OrganizationNotFound, SlugTaken
from gridfleet.domains.organizations.models import Organization
from gridfleet.kernel.caller import Actor, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.kernel.time_zones import UTC_NAME

__all__ = ["change", "count_members", "create", "delete", "get", "list_organizations"]


async def create(
    db: Connection, actor: Actor, name: str, slug: str, description: str | None, time_zone: str = UTC_NAME
) -> Organization:
    """Create an organisation without members. Raises SlugTaken."""
    created = await store.insert(db, new_id(), name, slug, description, time_zone)
    if created is None:
        raise SlugTaken
    await _record(db, Event.ORGANIZATION_CREATED, actor, created, {"name": name, "slug": slug})
    return created


async def change(
    db: Connection,
    actor: Actor,
    organization_id: UUID,
    name: str | None,
    slug: str | None,
    description: str | None,
    time_zone: str | None,
) -> Organization:
    """Change the fields that are not None and return the organisation. Raises OrganizationNotFound, SlugTaken, SlugInUse."""
    before = await store.lock(db, organization_id)
    if before is None:
        raise OrganizationNotFound
    wanted = {"name": name, "slug": slug, "description": description, "time_zone": time_zone}
    changes = {field: [getattr(before, field), value] for field, value in wanted.items() if value is not None}
    changes = {field: pair for field, pair in changes.items() if pair[0] != pair[1]}
    if not changes:
        return before
    changed = await store.update(db, organization_id, name, slug, description, time_zone)
    if changed is None:
        raise SlugTaken
    await _record(db, Event.ORGANIZATION_CHANGED, actor, changed, changes)
    return changed


async def delete(db: Connection, actor: Actor, organization_id: UUID) -> None:
    """Delete an organisation with its invitations. Raises OrganizationNotFound, OrganizationInUse."""
    organization = await store.lock(db, organization_id)
    if organization is None:
        raise OrganizationNotFound
    if not await store.delete(db, organization_id):
        raise OrganizationInUse
    await _record(db, Event.ORGANIZATION_DELETED, actor, organization, {"name": organization.name, "slug": organization.slug})


async def get(db: Connection, organization_id: UUID) -> Organization:
    """Return the organisation. Raises OrganizationNotFound."""
    found = await store.find(db, organization_id)
    if found is None:
        raise OrganizationNotFound
    return found


async def list_organizations(db: Connection, text: str | None, paging: Paging) -> Page[Organization]:
    """Return one page of the organisations whose name or slug contains `text`, or of all, newest first."""
    return Page.of(await store.list_page(db, text, paging), await store.count(db, text), paging)


async def count_members(db: Connection, scope: PlatformScope, organization_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of members by organisation. Organisations without members are left out."""
    return await store.member_counts(db, scope, organization_ids)


async def _record(
    db: Connection, event: Event, actor: Actor, organization: Organization, details: Mapping[str, object]
) -> None:
    subject = Subject(SubjectType.ORGANIZATION, organization.id)
    await record(db, event, actor, subject, organization_id=organization.id, details=details)
