"""Sessions: opened by a login, used with short-lived access tokens, extended with a refresh token that changes at each use.

A refresh token has 256 random bits and is stored as its SHA-256. A token that is used again after its rotation has been
copied, so the whole session ends. For ten seconds after the rotation the second use may be another tab that sent its request
at the same time; it gets a token of its own.
"""

import re
import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import store
from gridfleet.domains.identity.access_tokens import AccessClaims, AccessTokens
from gridfleet.domains.identity.accounts.tokens import digest
from gridfleet.domains.identity.errors import RefreshTokenInvalid, RefreshTokenMalformed, SessionNotFound
from gridfleet.domains.identity.models import Account, Client, LiveSession, OpenedSession, SessionInfo
from gridfleet.kernel.caller import Actor, ActorType, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import Unauthorized
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.tokens import InvalidToken

__all__ = [
    "LIFETIME",
    "MOST_SESSIONS",
    "ROTATION_TOLERANCE",
    "account_of",
    "end",
    "end_all",
    "list_sessions",
    "live_session",
    "open_session",
    "read_access_token",
    "refresh",
    "revoke",
]

LIFETIME: Final = timedelta(days=30)
MOST_SESSIONS: Final = 1_000
"""Sessions of a user. A login beyond them ends the one that was unused for the longest time.

A new password, or the end of an account, ends all of them in one statement. Those of a program that logs in once a second would
take longer than a statement may, so that its user could not be disabled any more.
"""

_MOST_ENDED: Final = 1_000
"""Sessions that a login ends: those of users who had more before there was a limit."""
ROTATION_TOLERANCE: Final = timedelta(seconds=10)
_REFRESH_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def read_access_token(tokens: AccessTokens, access_token: str) -> AccessClaims:
    """Return the claims of an access token, without a check of its session. Raises Unauthorized."""
    try:
        return tokens.read(access_token)
    except InvalidToken:
        raise Unauthorized from None


async def live_session(db: Connection, claims: AccessClaims) -> LiveSession:
    """Return the session of an access token. Raises Unauthorized if it has ended."""
    found = await store.find_live_session(db, claims.session_id, claims.user_id, claims.token_version, utc_now())
    if found is None:
        raise Unauthorized
    return found


async def account_of(db: Connection, caller: UserCaller) -> Account:
    """Return the caller's current account. Raises Unauthorized if it was deleted."""
    account = await store.find_account(db, caller.user_id)
    if account is None:
        raise Unauthorized
    return account


async def open_session(
    db: Connection, tokens: AccessTokens, account: Account, password_hash: str, client: Client
) -> OpenedSession | None:
    """Open a session for a user whose password matched the hash. Returns None if the password has changed meanwhile."""
    now = utc_now()
    session_id = new_id()
    if not await store.insert_session(db, session_id, account.id, password_hash, client, now, now + LIFETIME):
        return None
    await store.end_unused_sessions(db, account.id, MOST_SESSIONS, _MOST_ENDED, now)
    actor = Actor(ActorType.USER, str(account.id), client.ip)
    subject = Subject.user(account.id)
    await record(db, Event.USER_LOGGED_IN, actor, subject, details={"sessionId": str(session_id)})
    return await _hand_out(db, tokens, account, session_id, now)


async def refresh(database: Database, tokens: AccessTokens, refresh_token: str | None, ip: str | None = None) -> OpenedSession:
    """Extend the session of a refresh token and return it with new tokens.

    Takes the database because the end of a stolen session must be committed although the request fails.

    Raises:
        RefreshTokenMalformed: There is no token, or its form is wrong.
        RefreshTokenInvalid: It is unknown, expired, used before, or of a session that ended.
    """
    if refresh_token is None or not _REFRESH_TOKEN.fullmatch(refresh_token):
        raise RefreshTokenMalformed
    async with database.transaction() as db:
        opened = await _rotate(db, tokens, refresh_token, ip, utc_now())
    if opened is None:
        raise RefreshTokenInvalid
    return opened


async def end(db: Connection, caller: UserCaller) -> None:
    """End the caller's session. Both of its tokens become invalid."""
    await store.revoke_session(db, caller.user_id, caller.session_id, utc_now())
    subject = Subject.user(caller.user_id)
    await record(db, Event.USER_LOGGED_OUT, caller.as_actor, subject, details={"sessionId": str(caller.session_id)})


async def end_all(db: Connection, caller: UserCaller) -> None:
    """End every session of the caller, including the current one. All tokens issued so far become invalid."""
    # The account row first: this waits for a login in progress, whose session is then revoked below.
    await store.raise_token_version(db, caller.user_id)
    await store.revoke_sessions(db, caller.user_id, None, utc_now())
    await record(db, Event.USER_LOGGED_OUT_EVERYWHERE, caller.as_actor, Subject.user(caller.user_id))


async def list_sessions(db: Connection, caller: UserCaller) -> list[SessionInfo]:
    """Return the caller's newest live sessions, newest first, at most a thousand."""
    return await store.list_sessions(db, caller.user_id, caller.session_id, utc_now())


async def revoke(db: Connection, caller: UserCaller, session_id: UUID) -> None:
    """End one of the caller's sessions. Raises SessionNotFound, also for a session that has ended."""
    if not await store.revoke_session(db, caller.user_id, session_id, utc_now()):
        raise SessionNotFound
    await record(db, Event.SESSION_REVOKED, caller.as_actor, Subject(SubjectType.SESSION, session_id))


async def _rotate(
    db: Connection, tokens: AccessTokens, refresh_token: str, ip: str | None, now: datetime
) -> OpenedSession | None:
    used = await store.use_refresh_token(db, digest(refresh_token), now)
    if used is None:
        return None
    # In the future: by a clock that was ahead.
    if not now - ROTATION_TOLERANCE <= used.rotated_at <= now + ROTATION_TOLERANCE:
        if await store.revoke_session(db, used.user_id, used.session_id, now):
            actor, subject = Actor(ActorType.ANONYMOUS, ip=ip), Subject(SubjectType.SESSION, used.session_id)
            await record(db, Event.SESSION_TOKEN_REUSED, actor, subject, details={"userId": str(used.user_id)})
        return None
    account = await store.extend_session(db, used.session_id, now, now + LIFETIME)
    return None if account is None else await _hand_out(db, tokens, account, used.session_id, now)


async def _hand_out(db: Connection, tokens: AccessTokens, account: Account, session_id: UUID, now: datetime) -> OpenedSession:
    refresh_token = secrets.token_urlsafe(32)
    await store.insert_refresh_token(db, digest(refresh_token), session_id, now + LIFETIME)
    access_token = tokens.issue(AccessClaims(account.id, session_id, account.token_version))
    return OpenedSession(account, access_token, refresh_token)
