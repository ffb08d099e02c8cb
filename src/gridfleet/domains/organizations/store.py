"""SQL of organisations and memberships."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import ForeignKeyViolation, UniqueViolation
from psycopg.rows import args_row, class_row, kwargs_row

from gridfleet.domains.organizations.errors import SlugInUse
from gridfleet.domains.organizations.models import MemberFilter, Organization, OrganizationRole, OwnOrganization, RoleName
from gridfleet.kernel.caller import OrgRole, OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import containing, fetch_count
from gridfleet.kernel.pagination import Paging

_COLUMNS = "id, name, slug, description, time_zone, created_at, updated_at"
_MEMBERSHIP = "id, organization_id, user_id, role, created_at, updated_at"
_CONTAINS = "(%(pattern)s::text IS NULL OR name ILIKE %(pattern)s OR slug ILIKE %(pattern)s)"
_MEMBERS = (
    "m.organization_id = %(org)s AND (%(role)s::text IS NULL OR m.role = %(role)s) AND (%(pattern)s::text IS NULL OR EXISTS"
    " (SELECT FROM user_account u WHERE u.id = m.user_id AND (u.email ILIKE %(pattern)s OR u.name ILIKE %(pattern)s)))"
)


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


async def list_page(db: Connection, text: str | None, paging: Paging) -> list[Organization]:
    """Return one page of the organisations whose name or slug contains `text`, or of all, newest first."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM organization WHERE {_CONTAINS}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"pattern": text and containing(text), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count(db: Connection, text: str | None) -> int:
    """Return the number of organisations whose name or slug contains `text`, or of all."""
    return await fetch_count(db, f"SELECT count(*) FROM organization WHERE {_CONTAINS}", {"pattern": text and containing(text)})


async def member_counts(db: Connection, scope: PlatformScope, organization_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of members of each of the organisations that has some."""
    cursor = await db.execute(
        "SELECT organization_id, count(*) FROM membership WHERE organization_id = ANY (%s) GROUP BY organization_id",
        (list(organization_ids),),
    )
    return dict(await cursor.fetchall())


async def organization_counts(db: Connection, scope: PlatformScope, user_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of organisations of each of the users who is a member of some."""
    cursor = await db.execute(
        "SELECT user_id, count(*) FROM membership WHERE user_id = ANY (%s) GROUP BY user_id", (list(user_ids),)
    )
    return dict(await cursor.fetchall())


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
        "SELECT o.id, o.name, m.role, o.slug, o.time_zone FROM membership m JOIN organization o ON o.id = m.organization_id"
        " WHERE m.user_id = %s ORDER BY m.created_at, m.id",
        (user_id,),
    )
    return await cursor.fetchall()


def _membership(*row: Any) -> Membership:
    member_id, organization_id, user_id, role, created_at, updated_at = row
    return Membership(member_id, organization_id, user_id, RoleName(role), created_at, updated_at)


def _members(org: OrgScope, wanted: MemberFilter) -> dict[str, Any]:
    return {"org": org.organization_id, "role": wanted.role, "pattern": wanted.text and containing(wanted.text)}


async def list_members(db: Connection, org: OrgScope, wanted: MemberFilter, paging: Paging) -> list[Membership]:
    """Return one page of an organisation's memberships that match, newest first."""
    cursor = db.cursor(row_factory=args_row(_membership))
    await cursor.execute(
        f"SELECT {_MEMBERSHIP} FROM membership m WHERE {_MEMBERS}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**_members(org, wanted), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count_members(db: Connection, org: OrgScope, wanted: MemberFilter) -> int:
    """Return the number of an organisation's members that match."""
    return await fetch_count(db, f"SELECT count(*) FROM membership m WHERE {_MEMBERS}", _members(org, wanted))


async def find_member(db: Connection, org: OrgScope, member_id: UUID) -> Membership | None:
    """Return a membership of the organisation, or None."""
    cursor = db.cursor(row_factory=args_row(_membership))
    await cursor.execute(
        f"SELECT {_MEMBERSHIP} FROM membership WHERE organization_id = %s AND id = %s", (org.organization_id, member_id)
    )
    return await cursor.fetchone()


async def lock_admins(db: Connection, org: OrgScope) -> set[UUID]:
    """Return the user ids of the organisation's ORG_ADMINs who are not disabled.

    Their memberships stay locked until the transaction ends.
    """
    cursor = await db.execute(
        "SELECT m.user_id FROM membership m JOIN user_account u ON u.id = m.user_id WHERE m.organization_id = %s"
        " AND m.role = 'ORG_ADMIN' AND u.disabled_at IS NULL ORDER BY m.id FOR UPDATE OF m",
        (org.organization_id,),
    )
    return {row[0] for row in await cursor.fetchall()}


async def hold_admin(db: Connection, org: OrgScope, user_id: UUID) -> bool:
    """Return whether the user is an ORG_ADMIN of the organisation and not disabled, until the transaction ends."""
    cursor = await db.execute(
        "SELECT FROM membership m JOIN user_account u ON u.id = m.user_id WHERE m.organization_id = %s AND m.user_id = %s"
        " AND m.role = 'ORG_ADMIN' AND u.disabled_at IS NULL FOR SHARE",
        (org.organization_id, user_id),
    )
    return cursor.rowcount == 1


async def set_role(db: Connection, org: OrgScope, member_id: UUID, role: RoleName) -> Membership | None:
    """Set the role of a membership and return it; None if the organisation has no such membership."""
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


async def actor_names(db: Connection, org: OrgScope, actor_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of those ids that are members of the organisation, SuperAdmins, or its API keys."""
    cursor = await db.execute(
        "SELECT u.id, u.name FROM user_account u WHERE u.id = ANY(%(ids)s) AND (u.is_super_admin"
        " OR EXISTS (SELECT FROM membership m WHERE m.user_id = u.id AND m.organization_id = %(org)s))"
        " UNION ALL SELECT k.id, k.name FROM partner_key k WHERE k.id = ANY(%(ids)s) AND k.organization_id = %(org)s",
        {"ids": list(actor_ids), "org": org.organization_id},
    )
    return dict(await cursor.fetchall())
