"""This process's cache of access rights: sessions, the roles of their users in organisations, and API keys.

A database notification invalidates the entry of each user or key that changes. A change that this process commits invalidates
its entry before the commit returns. Other processes receive the notification over a listening connection, and the response to
the change waits until they have applied it (`wait_for_invalidation`). Entries are valid only while that connection responds
to a query every second. After three seconds without a response every look-up goes to the database.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from gridfleet.api.access.invalidation import BARRIER_CHANNELS, LISTENER, Barrier
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.access_tokens import AccessClaims, AccessTokens
from gridfleet.domains.identity.models import LiveSession
from gridfleet.domains.organizations.membership import role_in
from gridfleet.domains.organizations.models import OrganizationRole
from gridfleet.domains.partners import key_text, rest_access
from gridfleet.domains.partners.models import LiveKey
from gridfleet.kernel.caller import KeyCaller, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import HEARTBEAT_SECONDS, listen
from gridfleet.kernel.db.notified_cache import NotifiedCache
from gridfleet.kernel.errors import Unauthorized

__all__ = ["ACCESS_CHANNEL", "ALL_ENTRIES", "AccessCache"]

ACCESS_CHANNEL: Final = "access_changed"
"""The notification channel. A payload is the id of a user or key, or ALL_ENTRIES."""

ALL_ENTRIES: Final = "*"

_VALID_SECONDS: Final = 3 * HEARTBEAT_SECONDS
MOST_ENTRIES: Final = 50_000
"""Limit of cached sessions, of roles, and of keys without plants and networks."""

_KEY_SIZE: Final = 20
"""Plants or networks that take as much memory as a key without them: about 180 bytes each. A key may have 3,000 of them, and an
organisation any number of keys."""


@dataclass(slots=True)
class _CachedKey:
    live: LiveKey
    noted_at: float
    """Monotonic time at which the use of the key was last recorded."""


class AccessCache:
    """Cache of the access rights of callers. Pass every change that this process commits to `invalidate_own`."""

    def __init__(self, tokens: AccessTokens, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty cache. `clock` returns monotonic seconds."""
        self._tokens = tokens
        self._clock = clock
        self._sessions = NotifiedCache[tuple[UUID, UUID], LiveSession](_user_of, limit=MOST_ENTRIES, is_valid=self.is_open)
        self._roles = NotifiedCache[tuple[UUID, UUID], OrganizationRole](_user_of, limit=MOST_ENTRIES, is_valid=self.is_open)
        self._keys = NotifiedCache[bytes, _CachedKey](
            _key_of, limit=MOST_ENTRIES * _KEY_SIZE, size=_size_of, is_valid=self.is_open
        )
        self._barrier = Barrier()
        self.own_changes = 0
        """Number of invalidations by commits of this process."""
        self._valid_until = -1.0

    def is_open(self) -> bool:
        """Return whether entries are valid, which requires a working notification connection."""
        return self._clock() < self._valid_until

    def claims(self, access_token: str) -> AccessClaims:
        """Return the claims of an access token. Raises Unauthorized."""
        return sessions.read_access_token(self._tokens, access_token)

    async def caller(self, database: Database, token: str | AccessClaims, ip: str) -> UserCaller:
        """Return the user of an access token, or of the claims of an earlier one, calling from `ip`. Raises Unauthorized."""
        claims = self.claims(token) if isinstance(token, str) else token
        key = claims.user_id, claims.session_id
        found = self._sessions.find(key)
        if found is None or found.expires_at <= utc_now():

            async def read(_: object) -> dict[tuple[UUID, UUID], LiveSession]:
                async with database.transaction() as db:
                    return {key: await sessions.live_session(db, claims)}

            found = (await self._sessions.load([key], read))[key]
        elif found.token_version != claims.token_version:
            raise Unauthorized
        return replace(found.caller, ip=ip)

    async def role(self, database: Database, caller: UserCaller, organization_id: UUID) -> OrganizationRole | None:
        """Return the caller's role in an organisation, or None if the organisation does not exist. None is not cached."""
        key = caller.user_id, organization_id

        async def read(_: object) -> dict[tuple[UUID, UUID], OrganizationRole]:
            async with database.transaction() as db:
                role = await role_in(db, *key)
            return {} if role is None else {key: role}

        return (await self._roles.look_up([key], read)).get(key)

    async def key(self, database: Database, text: str, ip: str) -> KeyCaller:
        """Return the caller of an API key, calling from `ip`, and record its use. Raises Unauthorized."""
        digest = key_text.digest_of(text)
        if digest is None:
            raise Unauthorized

        async def read(_: object) -> dict[bytes, _CachedKey]:
            async with database.transaction() as db:
                found = await rest_access.find_live(db, digest)
                if found is None:
                    raise Unauthorized
                if rest_access.admits(found, ip):
                    await rest_access.note_use(db, found.caller.key_id)
                return {digest: _CachedKey(found, self._clock())}

        known = (await self._keys.look_up([digest], read))[digest]
        if not rest_access.admits(known.live, ip):
            raise Unauthorized
        if self._clock() - known.noted_at > rest_access.NOTED_EVERY.total_seconds():
            known.noted_at = self._clock()
            async with database.transaction() as db:
                await rest_access.note_use(db, known.live.caller.key_id)
        return replace(known.live.caller, ip=ip)

    def invalidate_own(self, payload: str) -> None:
        """Invalidate what this process has just committed."""
        self.own_changes += 1
        self.invalidate(payload)

    async def wait_for_invalidation(self, database: Database) -> None:
        """Wait until every other process has applied this process's invalidations, at most two seconds."""
        if self.is_open():
            await self._barrier.wait(database)

    def invalidate(self, payload: str) -> None:
        """Remove the user or key that a notification names, or all entries."""
        for cache in (self._sessions, self._roles, self._keys):
            if payload == ALL_ENTRIES:
                cache.invalidate_all()
            else:
                cache.invalidate(payload)

    async def keep_listening(self, database: Database) -> None:
        """Apply notifications of changes. Raises when the connection is lost."""

        def received(channel: str, payload: str) -> None:
            if channel == ACCESS_CHANNEL:
                self.invalidate(payload)
            else:
                self._barrier.receive(database, channel, payload)

        try:
            channels = (ACCESS_CHANNEL, *BARRIER_CHANNELS)
            await listen(database.url, channels, self._open, received, self._extend_validity, name=LISTENER)
        finally:
            self._valid_until = -1.0
            self.invalidate(ALL_ENTRIES)

    def _open(self) -> None:
        self.invalidate(ALL_ENTRIES)
        self._extend_validity()

    def _extend_validity(self) -> None:
        self._valid_until = self._clock() + _VALID_SECONDS


def _user_of(key: tuple[UUID, UUID], _: object) -> tuple[str]:
    return (str(key[0]),)


def _key_of(_: bytes, known: _CachedKey) -> tuple[str]:
    return (str(known.live.caller.key_id),)


def _size_of(known: _CachedKey) -> int:
    return _KEY_SIZE + len(known.live.caller.plant_ids or ()) + len(known.live.networks)
