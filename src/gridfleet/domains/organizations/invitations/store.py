"""SQL of invitations."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import args_row, kwargs_row

from gridfleet.domains.organizations.invitations.models import Invitation, InvitationStatus, ListedInvitation
from gridfleet.domains.organizations.models import RoleName
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import NOT_AHEAD_OF, fetch_count, fetch_value
from gridfleet.kernel.pagination import Paging

# A pending invitation is shown as expired from its expiry on, even before the sweep updates its row.
_COLUMNS = (
    "id, organization_id, email, role,"
    " CASE WHEN status = 'PENDING' AND expires_at <= now() THEN 'EXPIRED' ELSE status END AS status,"
    " invited_by, expires_at, accepted_at, created_at, updated_at"
)


class HeldInvitation(NamedTuple):
    """The fields of an invitation that its token gives access to. `used` says that it has created a membership."""

    id: UUID
    organization_id: UUID
    email: str
    role: RoleName
    status: InvitationStatus
    expires_at: datetime
    used: bool


def _invitation(**row: Any) -> Invitation:
    role, status, by = RoleName(row.pop("role")), InvitationStatus(row.pop("status")), str(row.pop("invited_by"))
    return Invitation(**row, role=role, status=status, invited_by=by)


def _listed(**row: Any) -> ListedInvitation:
    joined_at = row.pop("used_at")
    return ListedInvitation(**msgspec.structs.asdict(_invitation(**row)), joined_at=joined_at)


def _held(*row: Any) -> HeldInvitation:
    invitation_id, organization_id, email, role, status, expires_at, used = row
    return HeldInvitation(invitation_id, organization_id, email, RoleName(role), InvitationStatus(status), expires_at, used)


async def insert(
    db: Connection,
    org: OrgScope,
    invitation_id: UUID,
    email: str,
    role: RoleName,
    token_hash: bytes,
    now: datetime,
    expires_at: datetime,
) -> Invitation | None:
    """Insert a pending invitation and return it; None if the address has one."""
    cursor = db.cursor(row_factory=kwargs_row(_invitation))
    await cursor.execute(
        "INSERT INTO invitation (id, organization_id, email, role, token_hash, invited_by, expires_at, created_at, updated_at)"
        " VALUES (%(id)s, %(organization_id)s, %(email)s, %(role)s, %(token_hash)s, %(by)s, %(expires_at)s, %(now)s, %(now)s)"
        f" ON CONFLICT (organization_id, email) WHERE status = 'PENDING' DO NOTHING RETURNING {_COLUMNS}",
        {
            "id": invitation_id,
            "organization_id": org.organization_id,
            "email": email,
            "role": role,
            "token_hash": token_hash,
            "by": org.person.user_id,
            "expires_at": expires_at,
            "now": now,
        },
    )
    return await cursor.fetchone()


async def nth_newest(db: Connection, org: OrgScope, n: int, email: str | None = None) -> datetime | None:
    """Return the time of the organisation's `n`-th newest invitation, or of those to `email`; None if there are fewer."""
    return await fetch_value(
        db,
        "SELECT created_at FROM invitation WHERE organization_id = %s AND email = coalesce(%s, email)"
        f" AND created_at {NOT_AHEAD_OF} ORDER BY created_at DESC, id DESC OFFSET %s LIMIT 1",
        (org.organization_id, email, utc_now(), n - 1),
    )


async def nth_newest_to(db: Connection, email: str, n: int) -> datetime | None:
    """Return the time of the `n`-th newest invitation to an address, in any organisation; None if there are fewer.

    Locks the address: other transactions wait here until this one ends.
    """
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended('invitation ' || %s, 0))", (email,))
    return await fetch_value(
        db,
        f"SELECT created_at FROM invitation WHERE email = %s AND created_at {NOT_AHEAD_OF}"
        " ORDER BY created_at DESC OFFSET %s LIMIT 1",
        (email, utc_now(), n - 1),
    )


async def list_page(db: Connection, org: OrgScope, paging: Paging) -> list[ListedInvitation]:
    """Return one page of an organisation's invitations, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_listed))
    await cursor.execute(
        f"SELECT {_COLUMNS}, used_at FROM invitation WHERE organization_id = %s"
        " ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (org.organization_id, paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope) -> int:
    """Return the number of an organisation's invitations."""
    return await fetch_count(db, "SELECT count(*) FROM invitation WHERE organization_id = %s", (org.organization_id,))


async def find(db: Connection, org: OrgScope, invitation_id: UUID) -> Invitation | None:
    """Return an invitation of the organisation, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_invitation))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM invitation WHERE organization_id = %s AND id = %s", (org.organization_id, invitation_id)
    )
    return await cursor.fetchone()


async def revoke(db: Connection, org: OrgScope, invitation_id: UUID, now: datetime) -> Invitation | None:
    """Mark an invitation as revoked if its token can still be used, and return it. None if it cannot."""
    cursor = db.cursor(row_factory=kwargs_row(_invitation))
    await cursor.execute(
        "UPDATE invitation SET status = 'REVOKED', updated_at = %(now)s"
        " WHERE organization_id = %(organization_id)s AND id = %(id)s"
        " AND status IN ('PENDING', 'ACCEPTED') AND used_at IS NULL AND expires_at > %(now)s"
        f" RETURNING {_COLUMNS}",
        {"now": now, "organization_id": org.organization_id, "id": invitation_id},
    )
    return await cursor.fetchone()


async def revoke_of(db: Connection, inviter_id: UUID, now: datetime, org: OrgScope | None = None) -> list[Invitation]:
    """Revoke the invitations of a user that can still be used, in one organisation or in all. Returns them.

    They are locked in the order of their ids, as `lock_held` does.
    """
    condition, parameters = "", dict[str, Any](by=inviter_id, now=now)
    if org is not None:
        condition, parameters["org"] = " AND organization_id = %(org)s", org.organization_id
    cursor = db.cursor(row_factory=kwargs_row(_invitation))
    await cursor.execute(
        f"WITH held AS (SELECT id FROM invitation WHERE invited_by = %(by)s{condition} AND status IN ('PENDING', 'ACCEPTED')"
        " AND used_at IS NULL AND expires_at > %(now)s ORDER BY id FOR UPDATE),"
        " revoked AS (UPDATE invitation i SET status = 'REVOKED', updated_at = %(now)s FROM held WHERE i.id = held.id"
        f" RETURNING i.*) SELECT {_COLUMNS} FROM revoked ORDER BY id",
        parameters,
    )
    return await cursor.fetchall()


async def mark_expired(db: Connection, now: datetime) -> None:
    """Mark pending invitations of every organisation that have expired."""
    await db.execute(
        "UPDATE invitation SET status = 'EXPIRED', updated_at = %(now)s WHERE status = 'PENDING' AND expires_at <= %(now)s",
        {"now": now},
    )


async def mark_expired_in(db: Connection, org: OrgScope, now: datetime) -> None:
    """Mark pending invitations of one organisation that have expired."""
    await db.execute(
        "UPDATE invitation SET status = 'EXPIRED', updated_at = %(now)s"
        " WHERE organization_id = %(organization_id)s AND status = 'PENDING' AND expires_at <= %(now)s",
        {"now": now, "organization_id": org.organization_id},
    )


async def find_held(db: Connection, token_hash: bytes) -> HeldInvitation | None:
    """Return the invitation of a token, or None."""
    cursor = db.cursor(row_factory=args_row(_held))
    await cursor.execute(
        "SELECT id, organization_id, email, role, status, expires_at, used_at IS NOT NULL FROM invitation"
        " WHERE token_hash = %s",
        (token_hash,),
    )
    return await cursor.fetchone()


async def lock_held(db: Connection, token_hash: bytes) -> HeldInvitation | None:
    """Return the invitation of a token, locked until the transaction ends, or None.

    The organisation is locked first, as its deletion locks it before its invitations. Its other invitations to the address are
    locked too, in one order, because the use of one revokes the others.
    """
    await db.execute(
        "SELECT FROM organization WHERE id = (SELECT organization_id FROM invitation WHERE token_hash = %s) FOR KEY SHARE",
        (token_hash,),
    )
    await db.execute(
        "SELECT FROM invitation WHERE (organization_id, email) IN"
        " (SELECT organization_id, email FROM invitation WHERE token_hash = %s) ORDER BY id FOR UPDATE",
        (token_hash,),
    )
    return await find_held(db, token_hash)


async def accept(db: Connection, invitation_id: UUID, now: datetime, *, used: bool) -> None:
    """Mark an invitation as accepted, and as used if it creates a membership."""
    await db.execute(
        "UPDATE invitation SET status = 'ACCEPTED', accepted_at = coalesce(accepted_at, %(now)s),"
        " used_at = CASE WHEN %(used)s THEN %(now)s::timestamptz END, updated_at = %(now)s WHERE id = %(id)s",
        {"now": now, "used": used, "id": invitation_id},
    )


async def revoke_others(db: Connection, used: HeldInvitation, now: datetime) -> list[tuple[UUID, str]]:
    """Revoke the organisation's other invitations to the same address that can still be used. Returns their ids and roles."""
    cursor = await db.execute(
        "UPDATE invitation SET status = 'REVOKED', updated_at = %(now)s"
        " WHERE organization_id = %(organization_id)s AND email = %(email)s AND id <> %(id)s"
        " AND status IN ('PENDING', 'ACCEPTED') AND used_at IS NULL AND expires_at > %(now)s RETURNING id, role",
        {"now": now, "organization_id": used.organization_id, "email": used.email, "id": used.id},
    )
    return await cursor.fetchall()
