"""SQL of accounts and of changes that wait for a mailed token."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.rows import args_row, class_row, kwargs_row

from gridfleet.domains.identity.models import Account, User, UserFilter, UserRole
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import containing, fetch_count, fetch_value
from gridfleet.kernel.pagination import Paging

_USER = "id, email, name, is_super_admin, disabled_at, created_at, updated_at"
_WANTED = (
    "(%(pattern)s::text IS NULL OR email ILIKE %(pattern)s OR name ILIKE %(pattern)s)"
    " AND (%(is_super_admin)s::bool IS NULL OR is_super_admin = %(is_super_admin)s)"
    " AND (%(is_disabled)s::bool IS NULL OR (disabled_at IS NOT NULL) = %(is_disabled)s)"
)
_ACCOUNT = "u.id, u.email, u.name, u.is_super_admin, u.default_organization_id, u.token_version"


class EmailChange(NamedTuple):
    """An address that a user has requested and not confirmed."""

    user_id: UUID
    email: str


def _user(**row: Any) -> User:
    role = UserRole.ADMIN if row.pop("is_super_admin") else UserRole.USER
    return User(**row, role=role)


def _parameters(wanted: UserFilter) -> dict[str, Any]:
    return {
        "pattern": None if wanted.text is None else containing(wanted.text),
        "is_super_admin": None if wanted.role is None else wanted.role is UserRole.ADMIN,
        "is_disabled": wanted.is_disabled,
    }


async def list_users(db: Connection, wanted: UserFilter, paging: Paging) -> list[User]:
    """Return one page of the accounts that match, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_user))
    await cursor.execute(
        f"SELECT {_USER} FROM user_account WHERE {_WANTED} ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**_parameters(wanted), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count_users(db: Connection, wanted: UserFilter) -> int:
    """Return the number of accounts that match."""
    return await fetch_count(db, f"SELECT count(*) FROM user_account WHERE {_WANTED}", _parameters(wanted))


async def find_users(db: Connection, user_ids: Sequence[UUID]) -> list[User]:
    """Return the accounts with these ids."""
    cursor = db.cursor(row_factory=kwargs_row(_user))
    await cursor.execute(f"SELECT {_USER} FROM user_account WHERE id = ANY (%s)", (list(user_ids),))
    return await cursor.fetchall()


async def list_super_admins(db: Connection) -> list[User]:
    """Return every SuperAdmin, oldest account first."""
    cursor = db.cursor(row_factory=kwargs_row(_user))
    await cursor.execute(f"SELECT {_USER} FROM user_account WHERE is_super_admin ORDER BY created_at, id")
    return await cursor.fetchall()


async def lock_enabled_super_admins(db: Connection) -> set[UUID]:
    """Return the ids of the SuperAdmins that are not disabled, with their accounts locked until the transaction ends."""
    cursor = await db.execute(
        "SELECT id FROM user_account WHERE is_super_admin AND disabled_at IS NULL ORDER BY id FOR NO KEY UPDATE"
    )
    return {row[0] for row in await cursor.fetchall()}


async def disable(db: Connection, user_id: UUID, now: datetime) -> bool:
    """Disable an account and invalidate its access tokens. Returns False if it was disabled before, or does not exist."""
    cursor = await db.execute(
        "UPDATE user_account SET disabled_at = %s, token_version = token_version + 1, updated_at = now()"
        " WHERE id = %s AND disabled_at IS NULL",
        (now, user_id),
    )
    return cursor.rowcount == 1


async def enable(db: Connection, user_id: UUID) -> bool:
    """Enable a disabled account. Returns False if it was not disabled, or does not exist."""
    cursor = await db.execute(
        "UPDATE user_account SET disabled_at = NULL, updated_at = now() WHERE id = %s AND disabled_at IS NOT NULL", (user_id,)
    )
    return cursor.rowcount == 1


async def is_disabled(db: Connection, user_id: UUID) -> bool:
    """Return whether an account is disabled."""
    return bool(await fetch_value(db, "SELECT disabled_at IS NOT NULL FROM user_account WHERE id = %s", (user_id,)))


async def find_account_by_email(db: Connection, email: str) -> Account | None:
    """Return the account of a normalised e-mail address, or None."""
    cursor = db.cursor(row_factory=class_row(Account))
    await cursor.execute(f"SELECT {_ACCOUNT} FROM user_account u WHERE u.email = %s", (email,))
    return await cursor.fetchone()


async def hold_account_by_email(db: Connection, email: str) -> Account | None:
    """Return the account of a normalised e-mail address, or None. Its address cannot change until the transaction ends."""
    cursor = db.cursor(row_factory=class_row(Account))
    await cursor.execute(f"SELECT {_ACCOUNT} FROM user_account u WHERE u.email = %s FOR KEY SHARE OF u", (email,))
    return await cursor.fetchone()


async def find_password_hash(db: Connection, user_id: UUID) -> str | None:
    """Return the hash of a user's password; None if there is no such user."""
    return await fetch_value(db, "SELECT password_hash FROM user_account WHERE id = %s", (user_id,))


async def hold_password(db: Connection, user_id: UUID, password_hash: str) -> bool:
    """Return whether a user's password has this hash and the account is not disabled, until the transaction ends."""
    cursor = await db.execute(
        "SELECT FROM user_account WHERE id = %s AND password_hash = %s AND disabled_at IS NULL FOR SHARE",
        (user_id, password_hash),
    )
    return cursor.rowcount == 1


async def insert_account(
    db: Connection, user_id: UUID, email: str, name: str, password_hash: str, *, is_super_admin: bool = False
) -> Account | None:
    """Insert an account and return it; None if the e-mail address is taken."""
    cursor = db.cursor(row_factory=class_row(Account))
    await cursor.execute(
        "INSERT INTO user_account AS u (id, email, name, password_hash, is_super_admin) VALUES (%s, %s, %s, %s, %s)"
        f" ON CONFLICT (email) DO NOTHING RETURNING {_ACCOUNT}",
        (user_id, email, name, password_hash, is_super_admin),
    )
    return await cursor.fetchone()


async def make_super_admin(db: Connection, user_id: UUID) -> None:
    """Make an account a SuperAdmin."""
    await db.execute("UPDATE user_account SET is_super_admin = true, updated_at = now() WHERE id = %s", (user_id,))


async def set_name(db: Connection, user_id: UUID, name: str) -> bool:
    """Set a user's name. Returns False if it is this one already."""
    cursor = await db.execute(
        "UPDATE user_account SET name = %(name)s, updated_at = now() WHERE id = %(user)s AND name <> %(name)s",
        {"name": name, "user": user_id},
    )
    return cursor.rowcount > 0


async def set_phone(db: Connection, user_id: UUID, phone: str | None) -> bool:
    """Set or clear a user's phone number. Returns False if it is this one already."""
    cursor = await db.execute(
        "UPDATE user_account SET phone = %(phone)s, updated_at = now()"
        " WHERE id = %(user)s AND phone IS DISTINCT FROM %(phone)s",
        {"phone": phone, "user": user_id},
    )
    return cursor.rowcount > 0


async def set_email(db: Connection, user_id: UUID, email: str) -> bool:
    """Set a user's e-mail address. Returns False if another account has it; then roll the transaction back."""
    try:
        await db.execute("UPDATE user_account SET email = %s, updated_at = now() WHERE id = %s", (email, user_id))
    except UniqueViolation:
        return False
    return True


async def set_password(db: Connection, user_id: UUID, new_hash: str, old_hash: str | None = None) -> bool:
    """Set a user's password. Returns False if `old_hash` is given and is not the current hash."""
    cursor = await db.execute(
        "UPDATE user_account SET password_hash = %(new)s, updated_at = now()"
        " WHERE id = %(id)s AND (%(old)s::text IS NULL OR password_hash = %(old)s)",
        {"new": new_hash, "old": old_hash, "id": user_id},
    )
    return cursor.rowcount == 1


async def set_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> bool:
    """Set a user's default organisation. Returns False if it is this one already."""
    cursor = await db.execute(
        "UPDATE user_account SET default_organization_id = %(organization)s"
        " WHERE id = %(user)s AND default_organization_id IS DISTINCT FROM %(organization)s",
        {"organization": organization_id, "user": user_id},
    )
    return cursor.rowcount > 0


async def set_first_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Set a user's default organisation if they have none."""
    await db.execute(
        "UPDATE user_account SET default_organization_id = %s WHERE id = %s AND default_organization_id IS NULL",
        (organization_id, user_id),
    )


async def clear_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Clear a user's default organisation if it is this one."""
    await db.execute(
        "UPDATE user_account SET default_organization_id = NULL WHERE id = %s AND default_organization_id = %s",
        (user_id, organization_id),
    )


async def save_email_change(
    db: Connection, user_id: UUID, email: str, token_hash: bytes, now: datetime, expires_at: datetime
) -> None:
    """Save a requested e-mail address. It replaces an earlier request of the user."""
    await db.execute(
        "INSERT INTO email_change (user_id, email, token_hash, requested_at, expires_at) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (user_id) DO UPDATE SET email = excluded.email, token_hash = excluded.token_hash,"
        " requested_at = excluded.requested_at, expires_at = excluded.expires_at",
        (user_id, email, token_hash, now, expires_at),
    )


async def take_email_change(db: Connection, token_hash: bytes, now: datetime) -> EmailChange | None:
    """Delete the request with an unexpired token and return it, or None."""
    cursor = db.cursor(row_factory=args_row(EmailChange))
    await cursor.execute(
        "DELETE FROM email_change WHERE token_hash = %s AND expires_at > %s RETURNING user_id, email", (token_hash, now)
    )
    return await cursor.fetchone()


async def delete_email_change(db: Connection, user_id: UUID) -> None:
    """Delete a user's request for another e-mail address."""
    await db.execute("DELETE FROM email_change WHERE user_id = %s", (user_id,))


async def save_password_reset(
    db: Connection, user_id: UUID, token_hash: bytes, now: datetime, expires_at: datetime, not_since: datetime
) -> bool:
    """Save a reset token in place of the user's earlier one. Returns False if that one is newer than `not_since`."""
    cursor = await db.execute(
        "INSERT INTO password_reset AS r (user_id, token_hash, requested_at, expires_at) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, requested_at = excluded.requested_at,"
        " expires_at = excluded.expires_at WHERE r.requested_at <= %s",
        (user_id, token_hash, now, expires_at, not_since),
    )
    return cursor.rowcount == 1


async def find_password_reset(db: Connection, token_hash: bytes, now: datetime) -> UUID | None:
    """Return the owner of an unexpired reset token, or None."""
    return await fetch_value(
        db, "SELECT user_id FROM password_reset WHERE token_hash = %s AND expires_at > %s", (token_hash, now)
    )


async def take_password_reset(db: Connection, token_hash: bytes, now: datetime) -> UUID | None:
    """Delete an unexpired reset token and return its owner, or None."""
    return await fetch_value(
        db, "DELETE FROM password_reset WHERE token_hash = %s AND expires_at > %s RETURNING user_id", (token_hash, now)
    )


async def delete_password_reset(db: Connection, user_id: UUID) -> None:
    """Delete a user's reset token."""
    await db.execute("DELETE FROM password_reset WHERE user_id = %s", (user_id,))


async def delete_expired_requests(db: Connection, now: datetime) -> None:
    """Delete requests and resets whose tokens have expired."""
    await db.execute(
        "WITH changes AS (DELETE FROM email_change WHERE expires_at < %(now)s)"
        " DELETE FROM password_reset WHERE expires_at < %(now)s",
        {"now": now},
    )
