"""SQL of logins, failed logins and sessions."""

from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import args_row, class_row, kwargs_row

from gridfleet.domains.identity.models import Account, Client, LiveSession, SessionInfo
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection

_ACCOUNT = "u.id, u.email, u.name, u.is_super_admin, u.default_organization_id, u.token_version"

MOST_LISTED: Final = 1_000
"""Sessions in a list. A user may log in 60 times a minute, and a session lives for 30 days."""

# Two processes that start at once must not both find that there is no SuperAdmin.
_FIRST_ADMIN_LOCK = 0x6772_6964_0001


class Credentials(NamedTuple):
    """An account with the hash of its password, and whether it is disabled."""

    account: Account
    password_hash: str
    is_disabled: bool


class LoginFailures(NamedTuple):
    """The times of an address's recent failed logins, oldest first, and the end of its lock; None if it was never locked."""

    failed_at: list[datetime]
    locked_until: datetime | None


class UsedRefreshToken(NamedTuple):
    """A refresh token's session and owner, and the time of its first use."""

    session_id: UUID
    user_id: UUID
    rotated_at: datetime


def _credentials(**row: Any) -> Credentials:
    password_hash, is_disabled = row.pop("password_hash"), row.pop("is_disabled")
    return Credentials(Account(**row), password_hash, is_disabled)


async def find_credentials(db: Connection, email: str) -> Credentials | None:
    """Return the account and password hash of a normalised e-mail address, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_credentials))
    await cursor.execute(
        f"SELECT {_ACCOUNT}, u.password_hash, u.disabled_at IS NOT NULL AS is_disabled FROM user_account u WHERE u.email = %s",
        (email,),
    )
    return await cursor.fetchone()


async def find_account(db: Connection, user_id: UUID) -> Account | None:
    """Return the account with this id, or None."""
    cursor = db.cursor(row_factory=class_row(Account))
    await cursor.execute(f"SELECT {_ACCOUNT} FROM user_account u WHERE u.id = %s", (user_id,))
    return await cursor.fetchone()


async def replace_hash(db: Connection, user_id: UUID, old_hash: str, new_hash: str) -> None:
    """Replace the hash of a password by a new hash of the same password. Has no effect if `old_hash` is not stored any more."""
    await db.execute(
        "UPDATE user_account SET password_hash = %s WHERE id = %s AND password_hash = %s", (new_hash, user_id, old_hash)
    )


async def lock_first_admin(db: Connection) -> bool:
    """Lock the creation of the first SuperAdmin until the transaction ends. Returns whether a SuperAdmin exists."""
    await db.execute("SELECT pg_advisory_xact_lock(%s)", (_FIRST_ADMIN_LOCK,))
    cursor = await db.execute("SELECT EXISTS (SELECT FROM user_account WHERE is_super_admin)")
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def save_super_admin(db: Connection, user_id: UUID, email: str, name: str, password_hash: str) -> None:
    """Insert a SuperAdmin, or make the account with that e-mail address one. Sets this password and ends its sessions."""
    await db.execute(
        "INSERT INTO user_account AS u (id, email, name, password_hash, is_super_admin) VALUES (%s, %s, %s, %s, true)"
        " ON CONFLICT (email) DO UPDATE SET is_super_admin = true, password_hash = excluded.password_hash,"
        " token_version = u.token_version + 1, updated_at = now()",
        (user_id, email, name, password_hash),
    )


async def lock_failures(db: Connection, email_hash: bytes) -> LoginFailures:
    """Return the failures of an address, with its row locked until the transaction ends. A missing row is inserted."""
    cursor = db.cursor(row_factory=args_row(LoginFailures))
    await cursor.execute(
        "INSERT INTO login_failure AS f (email_hash) VALUES (%s)"
        " ON CONFLICT (email_hash) DO UPDATE SET failed_at = f.failed_at RETURNING f.failed_at, f.locked_until",
        (email_hash,),
    )
    return (await cursor.fetchall())[0]


async def save_failures(db: Connection, email_hash: bytes, failures: LoginFailures) -> None:
    """Replace the failures of an address."""
    await db.execute(
        "UPDATE login_failure SET failed_at = %s, locked_until = %s WHERE email_hash = %s",
        (failures.failed_at, failures.locked_until, email_hash),
    )


async def delete_failures(db: Connection, email_hash: bytes) -> None:
    """Delete the failures of an address."""
    await db.execute("DELETE FROM login_failure WHERE email_hash = %s", (email_hash,))


async def delete_failures_before(db: Connection, moment: datetime) -> None:
    """Delete the rows of addresses whose failures, and so their locks, are all older than `moment`."""
    await db.execute("DELETE FROM login_failure WHERE %s > ALL (failed_at)", (moment,))


async def insert_session(
    db: Connection, session_id: UUID, user_id: UUID, password_hash: str, client: Client, now: datetime, expires_at: datetime
) -> bool:
    """Open a session for a user whose password matched that hash.

    Returns False if the account's hash has changed, or the account is disabled.
    """
    cursor = await db.execute(
        "INSERT INTO user_session (id, user_id, token_version, ip, user_agent, created_at, last_used_at, expires_at)"
        " SELECT %(id)s, u.id, u.token_version, %(ip)s, %(user_agent)s, %(now)s, %(now)s, %(expires_at)s"
        " FROM user_account u WHERE u.id = %(user_id)s AND u.password_hash = %(password_hash)s AND u.disabled_at IS NULL"
        " FOR SHARE",
        {
            "id": session_id,
            "user_id": user_id,
            "password_hash": password_hash,
            "ip": client.ip,
            "user_agent": client.user_agent,
            "now": now,
            "expires_at": expires_at,
        },
    )
    return cursor.rowcount == 1


async def insert_refresh_token(db: Connection, token_hash: bytes, session_id: UUID, expires_at: datetime) -> None:
    """Insert a refresh token of a session."""
    await db.execute(
        "INSERT INTO refresh_token (token_hash, session_id, expires_at) VALUES (%s, %s, %s)",
        (token_hash, session_id, expires_at),
    )


async def use_refresh_token(db: Connection, token_hash: bytes, now: datetime) -> UsedRefreshToken | None:
    """Mark an unexpired token as rotated if it is not yet. Two callers at once get the same time."""
    cursor = db.cursor(row_factory=args_row(UsedRefreshToken))
    await cursor.execute(
        "UPDATE refresh_token t SET rotated_at = coalesce(t.rotated_at, %(now)s) FROM user_session s"
        " WHERE t.token_hash = %(hash)s AND t.expires_at > %(now)s AND s.id = t.session_id"
        " RETURNING s.id, s.user_id, t.rotated_at",
        {"hash": token_hash, "now": now},
    )
    return await cursor.fetchone()


async def extend_session(db: Connection, session_id: UUID, now: datetime, expires_at: datetime) -> Account | None:
    """Extend a live session and return its owner; None if it has ended."""
    cursor = db.cursor(row_factory=class_row(Account))
    await cursor.execute(
        "UPDATE user_session s SET last_used_at = %(now)s, expires_at = %(expires_at)s FROM user_account u"
        " WHERE s.id = %(id)s AND u.id = s.user_id AND s.revoked_at IS NULL AND s.expires_at > %(now)s"
        f" AND s.token_version = u.token_version RETURNING {_ACCOUNT}",
        {"id": session_id, "now": now, "expires_at": expires_at},
    )
    return await cursor.fetchone()


async def revoke_session(db: Connection, user_id: UUID, session_id: UUID, now: datetime) -> bool:
    """End a session of the user, including its access tokens. Returns whether it was live."""
    cursor = await db.execute(
        "UPDATE user_session SET revoked_at = %(now)s"
        " WHERE id = %(id)s AND user_id = %(user_id)s AND revoked_at IS NULL AND expires_at > %(now)s",
        {"now": now, "id": session_id, "user_id": user_id},
    )
    return cursor.rowcount == 1


async def revoke_sessions(db: Connection, user_id: UUID, but: UUID | None, now: datetime) -> None:
    """End every session of the user except `but`."""
    await db.execute(
        "UPDATE user_session SET revoked_at = %s WHERE user_id = %s AND id IS DISTINCT FROM %s AND revoked_at IS NULL",
        (now, user_id, but),
    )


async def end_unused_sessions(db: Connection, user_id: UUID, kept: int, most: int, now: datetime) -> None:
    """End up to `most` sessions of the user beyond the `kept` ones that were used last."""
    await db.execute(
        "UPDATE user_session SET revoked_at = %(now)s WHERE id = ANY (ARRAY(SELECT id FROM user_session"
        " WHERE user_id = %(user_id)s AND revoked_at IS NULL ORDER BY last_used_at DESC, id DESC"
        " OFFSET %(kept)s LIMIT %(most)s))",
        {"user_id": user_id, "kept": kept, "most": most, "now": now},
    )


async def raise_token_version(db: Connection, user_id: UUID) -> None:
    """Invalidate every access token of the user."""
    await db.execute("UPDATE user_account SET token_version = token_version + 1 WHERE id = %s", (user_id,))


async def list_sessions(db: Connection, user_id: UUID, current: UUID, now: datetime) -> list[SessionInfo]:
    """Return the user's newest live sessions, newest first, at most `MOST_LISTED`."""
    cursor = db.cursor(row_factory=class_row(SessionInfo))
    await cursor.execute(
        "SELECT s.id, s.ip, s.user_agent, s.created_at, s.last_used_at, s.expires_at, s.id = %(current)s AS current"
        " FROM user_session s JOIN user_account u ON u.id = s.user_id"
        " WHERE s.user_id = %(user_id)s AND s.revoked_at IS NULL AND s.expires_at > %(now)s"
        " AND s.token_version = u.token_version ORDER BY s.created_at DESC, s.id DESC LIMIT %(most)s",
        {"user_id": user_id, "current": current, "now": now, "most": MOST_LISTED},
    )
    return await cursor.fetchall()


async def find_live_session(
    db: Connection, session_id: UUID, user_id: UUID, token_version: int, now: datetime
) -> LiveSession | None:
    """Return a live session with its user, or None."""
    cursor = await db.execute(
        "SELECT u.id, s.id, u.email, u.name, u.is_super_admin, u.default_organization_id, s.expires_at"
        " FROM user_session s JOIN user_account u ON u.id = s.user_id"
        " WHERE s.id = %(session_id)s AND u.id = %(user_id)s AND s.revoked_at IS NULL AND s.expires_at > %(now)s"
        " AND s.token_version = %(token_version)s AND u.token_version = %(token_version)s",
        {"session_id": session_id, "user_id": user_id, "token_version": token_version, "now": now},
    )
    row = await cursor.fetchone()
    return LiveSession(UserCaller(*row[:6]), token_version, row[6]) if row else None


async def delete_sessions_ended_before(db: Connection, limit: int, moment: datetime) -> int:
    """Delete at most `limit` sessions that ended before `moment`, with the tokens they still have. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM user_session WHERE id = ANY (ARRAY(SELECT id FROM user_session"
        " WHERE least(revoked_at, expires_at) < %s LIMIT %s))",
        (moment, limit),
    )
    return cursor.rowcount


async def delete_tokens_of_sessions_ended_before(db: Connection, limit: int, moment: datetime) -> int:
    """Delete at most `limit` refresh tokens of sessions that ended before `moment`. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM refresh_token WHERE token_hash = ANY (ARRAY(SELECT t.token_hash FROM user_session s"
        " JOIN refresh_token t ON t.session_id = s.id WHERE least(s.revoked_at, s.expires_at) < %s LIMIT %s))",
        (moment, limit),
    )
    return cursor.rowcount


async def delete_refresh_tokens_expired_before(db: Connection, limit: int, moment: datetime) -> int:
    """Delete at most `limit` expired refresh tokens, also of live sessions. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM refresh_token WHERE token_hash = ANY (ARRAY(SELECT token_hash FROM refresh_token"
        " WHERE expires_at < %s LIMIT %s))",
        (moment, limit),
    )
    return cursor.rowcount
