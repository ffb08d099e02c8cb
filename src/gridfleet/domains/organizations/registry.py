"""Organisations, as SuperAdmins keep them."""

from uuid import UUID

from gridfleet.domains.organizations import store
from gridfleet.domains.organizations.errors import OrganizationNotFound, SlugTaken
from gridfleet.domains.organizations.models import Organization
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["create", "get", "list_organizations"]


async def create(db: Connection, name: str, slug: str, description: str | None) -> Organization:
    """A new organisation without members. Raises SlugTaken."""
    created = await store.insert(db, new_id(), name, slug, description)
    if created is None:
        raise SlugTaken
    return created


async def get(db: Connection, organization_id: UUID) -> Organization:
    """The organisation. Raises OrganizationNotFound."""
    found = await store.find(db, organization_id)
    if found is None:
        raise OrganizationNotFound
    return found


async def list_organizations(db: Connection, paging: Paging) -> Page[Organization]:
    """One page of all organisations, newest first."""
    return Page.of(await store.list_page(db, paging), await store.count(db), paging)
