"""Sessions: opened by a login, carried by short access tokens, prolonged by a refresh token that changes at each use.

A refresh token is 256 random bits, stored as its SHA-256. One that comes back after its rotation was stolen, by its
sender or from him, so the whole session ends; for ten seconds after, it may be a second tab that asked at the same time,
and gets a token of its own.
"""

import hashlib
import re
import secrets
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.identity import store
from gridfleet.domains.identity.errors import RefreshTokenInvalid, RefreshTokenMalformed
from gridfleet.domains.identity.models import Account, Client, OpenedSession
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import Unauthorized
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.tokens import AccessClaims, AccessTokens, InvalidToken

__all__ = ["LIFETIME", "ROTATION_TOLERANCE", "account_of", "authenticate", "end", "open_session", "refresh"]

LIFETIME: Final = timedelta(days=30)
ROTATION_TOLERANCE: Final = timedelta(seconds=10)
_REFRESH_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def authenticate(db: Connection, tokens: AccessTokens, access_token: str) -> UserCaller:
    """The person behind an access token. Raises Unauthorized for a bad or expired token and for a session that ended."""
    try:
        claims = tokens.read(access_token)
    except InvalidToken:
        raise Unauthorized from None
    caller = await store.find_caller(db, claims.session_id, claims.user_id, claims.token_version, utc_now())
    if caller is None:
        raise Unauthorized
    return caller


async def account_of(db: Connection, caller: UserCaller) -> Account:
    """The caller's account as it stands now. Raises Unauthorized when it was deleted since."""
    account = await store.find_account(db, caller.user_id)
    if account is None:
        raise Unauthorized
    return account


async def open_session(
    db: Connection, tokens: AccessTokens, account: Account, password_hash: str, client: Client
) -> OpenedSession | None:
    """A new session for somebody whose password matched the hash; None when the password changed meanwhile."""
    now = utc_now()
    session_id = new_id()
    if not await store.insert_session(db, session_id, account.id, password_hash, client, now, now + LIFETIME):
        return None
    return await _hand_out(db, tokens, account, session_id, now)


async def refresh(database: Database, tokens: AccessTokens, refresh_token: str | None) -> OpenedSession:
    """The session of a refresh token, prolonged, with new tokens.

    Takes the database because the end of a stolen session must be committed although the request fails.
    Raises RefreshTokenMalformed, RefreshTokenInvalid.
    """
    if refresh_token is None or not _REFRESH_TOKEN.fullmatch(refresh_token):
        raise RefreshTokenMalformed
    async with database.transaction() as db:
        opened = await _rotate(db, tokens, refresh_token, utc_now())
    if opened is None:
        raise RefreshTokenInvalid
    return opened


async def end(db: Connection, caller: UserCaller) -> None:
    """Logs the caller out: neither token of the session counts any more."""
    await store.revoke_session(db, caller.session_id, utc_now())


async def _rotate(db: Connection, tokens: AccessTokens, refresh_token: str, now: datetime) -> OpenedSession | None:
    used = await store.use_refresh_token(db, _digest(refresh_token), now)
    if used is None:
        return None
    if used.rotated_at < now - ROTATION_TOLERANCE:
        await store.revoke_session(db, used.session_id, now)
        return None
    account = await store.extend_session(db, used.session_id, now, now + LIFETIME)
    return None if account is None else await _hand_out(db, tokens, account, used.session_id, now)


async def _hand_out(db: Connection, tokens: AccessTokens, account: Account, session_id: UUID, now: datetime) -> OpenedSession:
    refresh_token = secrets.token_urlsafe(32)
    await store.insert_refresh_token(db, _digest(refresh_token), session_id, now + LIFETIME)
    access_token = tokens.issue(AccessClaims(account.id, session_id, account.token_version))
    return OpenedSession(account, access_token, refresh_token, now + LIFETIME)


def _digest(refresh_token: str) -> bytes:
    return hashlib.sha256(refresh_token.encode()).digest()
