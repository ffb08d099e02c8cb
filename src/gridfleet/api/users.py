"""All accounts, for SuperAdmins."""

from uuid import UUID

from gridfleet.api.http import SA, PageQuery, endpoint, super_admin
from gridfleet.domains.identity.accounts import registry
from gridfleet.domains.identity.models import User
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


@endpoint("GET", "/api/v1/users", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def list_users(db: Connection, query: PageQuery) -> Page[User]:
    """List all accounts, newest first."""
    return await registry.list_users(db, query.paging)


@endpoint("GET", "/api/v1/users/{id}", caller=super_admin(), codes=("INVALID_UUID", "NOT_FOUND", *SA))
async def get_user(db: Connection, id: UUID) -> User:
    """Return one account."""
    return await registry.get_user(db, id)
