"""This process's cache of access rights: sessions, the roles of their users in organisations, and API keys.

A database notification invalidates the entry of each user or key that changes. A change that this process commits invalidates
its entry before the commit returns. Other processes receive the notification over a listening connection, and the response to
the change waits until they have applied it (`wait_for_invalidation`). Entries are valid only while that connection answers a
query every second. After three seconds without an answer every look-up goes to the database.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from uuid import UUID

from gridfleet.api._http.barrier import BARRIER_CHANNELS, LISTENER, Barrier
from gridfleet.api._http.validation import parse_uuid
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.models import LiveSession
from gridfleet.domains.organizations.membership import role_in
from gridfleet.domains.organizations.models import OrganizationRole
from gridfleet.domains.partners import key_text, rest_access
from gridfleet.domains.partners.models import LiveKey
from gridfleet.kernel.caller import KeyCaller, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import HEARTBEAT_SECONDS, listen
from gridfleet.kernel.errors import Unauthorized
from gridfleet.kernel.security.tokens import AccessClaims, AccessTokens

__all__ = ["ACCESS_CHANNEL", "ALL_ENTRIES", "AccessCache"]

T = TypeVar("T")

ACCESS_CHANNEL: Final = "access_changed"
"""The notification channel. A payload is the id of a user or key, or ALL_ENTRIES."""

ALL_ENTRIES: Final = "*"

_VALID_SECONDS: Final = 3 * HEARTBEAT_SECONDS
_MOST_USERS: Final = 20_000
_MOST_KEYS: Final = 20_000
_MOST_OF_A_USER: Final = 500
"""Limit of cached sessions, and of cached organisations, for one user."""


@dataclass(slots=True)
class _KnownUser:
    sessions: dict[UUID, LiveSession] = field(default_factory=dict)
    roles: dict[UUID, OrganizationRole] = field(default_factory=dict)


@dataclass(slots=True)
class _KnownKey:
    live: LiveKey
    noted_at: float
    """Monotonic time at which the use of the key was last recorded."""


class AccessCache:
    """Cache of the access rights of callers. Pass every change that this process commits to `invalidate_own`."""

    def __init__(self, tokens: AccessTokens, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty cache. `clock` returns monotonic seconds."""
        self._tokens = tokens
        self._clock = clock
        self._users: dict[UUID, _KnownUser] = {}
        self._keys: dict[bytes, _KnownKey] = {}
        self._digests: dict[UUID, bytes] = {}
        self._changes = 0
        self._barrier = Barrier()
        self.own_changes = 0
        """Number of invalidations by commits of this process."""
        self._valid_until = -1.0

    @property
    def is_open(self) -> bool:
        """Whether entries are valid, which requires a working notification connection."""
        return self._clock() < self._valid_until

    async def caller(self, database: Database, access_token: str, ip: str) -> UserCaller:
        """Return the user of an access token, calling from `ip`. Raises Unauthorized."""
        claims = sessions.read_access_token(self._tokens, access_token)
        found = self._known_session(claims)
        if found is None:
            changes = self._changes
            async with database.transaction() as db:
                found = await sessions.live_session(db, claims)
            if changes == self._changes and self.is_open:  # otherwise it may be stale: used once, not cached
                _keep(self._user(claims.user_id).sessions, claims.session_id, found)
        return replace(found.caller, ip=ip)

    async def role(self, database: Database, caller: UserCaller, organization_id: UUID) -> OrganizationRole | None:
        """Return the caller's role in an organisation, or None if the organisation does not exist. None is not cached."""
        known = self._users.get(caller.user_id)
        if known is not None and self.is_open and organization_id in known.roles:
            return known.roles[organization_id]
        changes = self._changes
        async with database.transaction() as db:
            found = await role_in(db, caller.user_id, organization_id)
        if found is not None and changes == self._changes and self.is_open:
            _keep(self._user(caller.user_id).roles, organization_id, found)
        return found

    async def key(self, database: Database, text: str, ip: str) -> KeyCaller:
        """Return the caller of an API key, calling from `ip`, and record its use. Raises Unauthorized."""
        digest = key_text.digest_of(text)
        if digest is None:
            raise Unauthorized
        known = self._keys.get(digest) if self.is_open else None
        if known is None:
            known = await self._read_key(database, digest, ip)
        elif rest_access.admits(known.live, ip) and self._clock() - known.noted_at > rest_access.NOTED_EVERY.total_seconds():
            known.noted_at = self._clock()
            async with database.transaction() as db:
                await rest_access.note_use(db, known.live.caller.key_id)
        if not rest_access.admits(known.live, ip):
            raise Unauthorized
        return replace(known.live.caller, ip=ip)

    def invalidate_own(self, payload: str) -> None:
        """Invalidate what this process has just committed."""
        self.own_changes += 1
        self.invalidate(payload)

    async def wait_for_invalidation(self, database: Database) -> None:
        """Wait until every other process has applied this process's invalidations, at most two seconds."""
        if self.is_open:
            await self._barrier.wait(database)

    def invalidate(self, payload: str) -> None:
        """Remove the user or key that a notification names, or all entries."""
        self._changes += 1
        changed = None if payload == ALL_ENTRIES else parse_uuid(payload)
        if changed is None:
            self._users.clear()
            self._keys.clear()
            self._digests.clear()
            return
        self._users.pop(changed, None)
        if (digest := self._digests.pop(changed, None)) is not None:
            self._keys.pop(digest, None)

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

    def _known_session(self, claims: AccessClaims) -> LiveSession | None:
        known = self._users.get(claims.user_id)
        found = known.sessions.get(claims.session_id) if known is not None and self.is_open else None
        if found is None or found.expires_at <= utc_now():
            return None
        if found.token_version != claims.token_version:
            raise Unauthorized
        return found

    async def _read_key(self, database: Database, digest: bytes, ip: str) -> _KnownKey:
        changes = self._changes
        async with database.transaction() as db:
            found = await rest_access.find_live(db, digest)
            if found is None:
                raise Unauthorized
            if rest_access.admits(found, ip):
                await rest_access.note_use(db, found.caller.key_id)
        known = _KnownKey(found, self._clock())
        if changes == self._changes and self.is_open:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
                self._digests.clear()
            self._keys[digest] = known
            self._digests[found.caller.key_id] = digest
        return known

    def _user(self, user_id: UUID) -> _KnownUser:
        if user_id not in self._users:
            if len(self._users) >= _MOST_USERS:
                self._users.pop(next(iter(self._users)))  # the oldest entry; it is read again on next use
            self._users[user_id] = _KnownUser()
        return self._users[user_id]


def _keep(known: dict[UUID, T], key: UUID, value: T) -> None:
    if len(known) >= _MOST_OF_A_USER:
        known.clear()
    known[key] = value
