"""SQL of organisations and memberships."""

from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.organizations.models import Organization, OwnOrganization
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Paging

_COLUMNS = "id, name, slug, description, created_at, updated_at"


class Standing(NamedTuple):
    """Somebody's role in an organisation that exists; None for a stranger."""

    role: OrgRole | None


def _own(**row: Any) -> OwnOrganization:
    return OwnOrganization(**{**row, "role": OrgRole[row["role"]]})


async def insert(db: Connection, organization_id: UUID, name: str, slug: str, description: str | None) -> Organization | None:
    """The new organisation, or None when the slug is taken."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(
        "INSERT INTO organization (id, name, slug, description) VALUES (%s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT organization_slug_key DO NOTHING RETURNING {_COLUMNS}",
        (organization_id, name, slug, description),
    )
    return await cursor.fetchone()


async def find(db: Connection, organization_id: UUID) -> Organization | None:
    """The organisation, if there is one."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(f"SELECT {_COLUMNS} FROM organization WHERE id = %s", (organization_id,))
    return await cursor.fetchone()


async def list_page(db: Connection, paging: Paging) -> list[Organization]:
    """One page of all organisations, newest first."""
    cursor = db.cursor(row_factory=class_row(Organization))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM organization ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count(db: Connection) -> int:
    """How many organisations there are."""
    cursor = await db.execute("SELECT count(*) FROM organization")
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def find_standing(db: Connection, organization_id: UUID, user_id: UUID) -> Standing | None:
    """Somebody's role in an organisation; None when the organisation does not exist."""
    cursor = await db.execute(
        "SELECT m.role FROM organization o LEFT JOIN membership m ON m.organization_id = o.id AND m.user_id = %s"
        " WHERE o.id = %s",
        (user_id, organization_id),
    )
    row = await cursor.fetchone()
    return None if row is None else Standing(OrgRole[row[0]] if row[0] else None)


async def list_of_member(db: Connection, user_id: UUID) -> list[OwnOrganization]:
    """The organisations somebody belongs to, in the order of joining."""
    cursor = db.cursor(row_factory=kwargs_row(_own))
    await cursor.execute(
        "SELECT o.id, o.name, m.role, o.slug FROM membership m JOIN organization o ON o.id = m.organization_id"
        " WHERE m.user_id = %s ORDER BY m.created_at, m.id",
        (user_id,),
    )
    return await cursor.fetchall()
