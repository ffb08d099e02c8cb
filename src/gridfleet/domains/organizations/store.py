"""SQL of organisations and memberships."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import ForeignKeyViolation, UniqueViolation
from psycopg.rows import args_row, class_row, kwargs_row

from gridfleet.domains.organizations.errors import SlugInUse
from gridfleet.domains.organizations.models import Organization, OrganizationRole, OwnOrganization, RoleName
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import Paging

_COLUMNS = "id, name, slug, description, time_zone, created_at, updated_at"
_MEMBERSHIP = "id, organization_id, user_id, role, created_at, updated_at"


class Membership(NamedTuple):
    """A row of the table `membership`."""

    id: UUID
    organization_id: UUID
    user_id: UUID
    role: RoleName
    created_at: datetime
    updated_at: datetime


def _own(**row: Any) -> OwnOrganization:
    return OwnOrganization(**{**row, "role": OrgRole[row["role"]]})


async def insert(
    db: Connection, organization_id: UUID, name: str, slug: str, description: str | None, time_zone: str
) -> Organization | None:
    """Insert an organisation and return it; None if the slug is taken."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(
        "INSERT INTO organization (id, name, slug, description, time_zone) VALUES (%s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT organization_slug_key DO NOTHING RETURNING {_COLUMNS}",
        (organization_id, name, slug, description, time_zone),
    )
    return await cursor.fetchone()


async def find(db: Connection, organization_id: UUID) -> Organization | None:
    """Return the organisation, or None."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(f"SELECT {_COLUMNS} FROM organization WHERE id = %s", (organization_id,))
    return await cursor.fetchone()


async def update(
    db: Connection,
    organization_id: UUID,
    name: str | None,
    slug: str | None,
    description: str | None,
    time_zone: str | None,
) -> Organization | None:
    """Change the fields that are not None and return the organisation. None if the slug is taken.

    Raises SlugInUse. Roll the transaction back after None or an error.
    """
    cursor = db.cursor(row_factory=class_row(Organization))
    try:
        await cursor.execute(
            "UPDATE organization SET name = coalesce(%(name)s, name), slug = coalesce(%(slug)s, slug),"
            " description = coalesce(%(description)s, description), time_zone = coalesce(%(zone)s, time_zone),"
            f" updated_at = now() WHERE id = %(id)s RETURNING {_COLUMNS}",
            {"id": organization_id, "name": name, "slug": slug, "description": description, "zone": time_zone},
        )
    except UniqueViolation:
        return None
    except ForeignKeyViolation:
        raise SlugInUse from None
    return await cursor.fetchone()


async def delete(db: Connection, organization_id: UUID) -> bool:
    """Delete an organisation. Returns False if other rows refer to it; then roll the transaction back."""
    try:
        await db.execute("DELETE FROM organization WHERE id = %s", (organization_id,))
    except ForeignKeyViolation:
        return False
    return True


async def lock(db: Connection, organization_id: UUID) -> Organization | None:
    """Return the organisation, locked until the transaction ends, or None."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(f"SELECT {_COLUMNS} FROM organization WHERE id = %s FOR UPDATE", (organization_id,))
    return await cursor.fetchone()


async def list_page(db: Connection, paging: Paging) -> list[Organization]:
    """Return one page of all organisations, newest first."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM organization ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count(db: Connection) -> int:
    """Return the number of organisations."""
    return await fetch_count(db, "SELECT count(*) FROM organization")


async def find_role(db: Connection, organization_id: UUID, user_id: UUID) -> OrganizationRole | None:
    """Return a user's role in an organisation; None if the organisation does not exist."""
    cursor = await db.execute(
        "SELECT m.role FROM organization o LEFT JOIN membership m ON m.organization_id = o.id AND m.user_id = %s"
        " WHERE o.id = %s",
        (user_id, organization_id),
    )
    row = await cursor.fetchone()
    return None if row is None else OrganizationRole(OrgRole[row[0]] if row[0] else None)


async def list_of_member(db: Connection, user_id: UUID) -> list[OwnOrganization]:
    """Return the organisations of a user, in the order of joining."""
    cursor = db.cursor(row_factory=kwargs_row(_own))
    await cursor.execute(
        "SELECT o.id, o.name, m.role, o.slug FROM membership m JOIN organization o ON o.id = m.organization_id"
        " WHERE m.user_id = %s ORDER BY m.created_at, m.id",
        (user_id,),
    )
    return await cursor.fetchall()


def _membership(*row: Any) -> Membership:
    member_id, organization_id, user_id, role, created_at, updated_at = row
    return Membership(member_id, organization_id, user_id, RoleName(role), created_at, updated_at)


async def list_members(db: Connection, org: OrgScope, paging: Paging) -> list[Membership]:
    """Return one page of an organisation's memberships, newest first."""
    cursor = db.cursor(row_factory=args_row(_membership))
    await cursor.execute(
        f"SELECT {_MEMBERSHIP} FROM membership WHERE organization_id = %s ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (org.organization_id, paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count_members(db: Connection, org: OrgScope) -> int:
    """Return the number of an organisation's members."""
    return await fetch_count(db, "SELECT count(*) FROM membership WHERE organization_id = %s", (org.organization_id,))


async def find_member(db: Connection, org: OrgScope, member_id: UUID) -> Membership | None:
    """Return a membership of the organisation, or None."""
    cursor = db.cursor(row_factory=args_row(_membership))
    await cursor.execute(
        f"SELECT {_MEMBERSHIP} FROM membership WHERE organization_id = %s AND id = %s", (org.organization_id, member_id)
    )
    return await cursor.fetchone()


async def lock_admins(db: Connection, org: OrgScope) -> set[UUID]:
    """Return the ids of the organisation's ORG_ADMINs, with their memberships locked until the transaction ends."""
    cursor = await db.execute(
        "SELECT user_id FROM membership WHERE organization_id = %s AND role = 'ORG_ADMIN' ORDER BY id FOR UPDATE",
        (org.organization_id,),
    )
    return {row[0] for row in await cursor.fetchall()}


async def set_role(db: Connection, org: OrgScope, member_id: UUID, role: RoleName) -> Membership | None:
    """Set the role of a membership and return it, or None."""
    cursor = db.cursor(row_factory=args_row(_membership))
    await cursor.execute(
        f"UPDATE membership SET role = %s, updated_at = now() WHERE organization_id = %s AND id = %s RETURNING {_MEMBERSHIP}",
        (role, org.organization_id, member_id),
    )
    return await cursor.fetchone()


async def delete_member(db: Connection, org: OrgScope, member_id: UUID) -> bool:
    """Delete a membership. Returns whether it existed."""
    cursor = await db.execute("DELETE FROM membership WHERE organization_id = %s AND id = %s", (org.organization_id, member_id))
    return cursor.rowcount == 1


async def has_member_with_email(db: Connection, org: OrgScope, email: str) -> bool:
    """Return whether a member of the organisation has this normalised e-mail address."""
    cursor = await db.execute(
        "SELECT EXISTS (SELECT FROM membership m JOIN user_account u ON u.id = m.user_id"
        " WHERE m.organization_id = %s AND u.email = %s)",
        (org.organization_id, email),
    )
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def insert_member(db: Connection, member_id: UUID, organization_id: UUID, user_id: UUID, role: RoleName) -> bool:
    """Make a user a member. Returns False if the user is one already."""
    cursor = await db.execute(
        "INSERT INTO membership (id, organization_id, user_id, role) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT ON CONSTRAINT membership_key DO NOTHING",
        (member_id, organization_id, user_id, role),
    )
    return cursor.rowcount == 1
