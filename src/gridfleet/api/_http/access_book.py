"""Who may do what, remembered by this process: sessions, the standing of their owners in organisations, and API keys.

An entry is struck out when the database tells that its user or key changed. A change that this process commits is told before
the commit returns, so its answer already finds the entry gone; other processes hear of it over the connection that listens,
and the change is answered once they have (`others_know`). The book is used only while that connection lives: a quiet one is
asked every second, and when it has not answered for a few seconds every question goes to the database again.
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
from gridfleet.domains.organizations.membership import standing_in
from gridfleet.domains.organizations.models import Standing
from gridfleet.domains.partners import key_text, rest_access
from gridfleet.domains.partners.models import LiveKey
from gridfleet.kernel.caller import KeyCaller, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import HEARTBEAT_SECONDS, listen
from gridfleet.kernel.errors import Unauthorized
from gridfleet.kernel.security.tokens import AccessClaims, AccessTokens

__all__ = ["ACCESS_CHANNEL", "EVERYBODY", "AccessBook"]

T = TypeVar("T")

ACCESS_CHANNEL: Final = "access_changed"
"""The channel; payloads are a user's or key's id, or EVERYBODY."""

EVERYBODY: Final = "*"

_BELIEVED_SECONDS: Final = 3 * HEARTBEAT_SECONDS
_MOST_USERS: Final = 20_000
_MOST_KEYS: Final = 20_000
_MOST_OF_A_USER: Final = 500
"""Sessions, and organisations, that are remembered of one user."""


@dataclass(slots=True)
class _KnownUser:
    sessions: dict[UUID, LiveSession] = field(default_factory=dict)
    standings: dict[UUID, Standing] = field(default_factory=dict)


@dataclass(slots=True)
class _KnownKey:
    live: LiveKey
    noted_at: float
    """When its use was written down."""


class AccessBook:
    """What one api process knows about its callers. `strike_own` must hear of every change that the process itself commits."""

    def __init__(self, tokens: AccessTokens, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that only grow."""
        self._tokens = tokens
        self._clock = clock
        self._users: dict[UUID, _KnownUser] = {}
        self._keys: dict[bytes, _KnownKey] = {}
        self._digests: dict[UUID, bytes] = {}
        self._changes = 0
        self._barrier = Barrier()
        self.own_changes = 0
        """How often this process's own commits struck somebody out."""
        self._believed_until = -1.0

    @property
    def is_open(self) -> bool:
        """Whether entries count: the database would have told us of a change."""
        return self._clock() < self._believed_until

    async def caller(self, database: Database, access_token: str, ip: str) -> UserCaller:
        """The person behind an access token, calling from `ip`. Raises Unauthorized."""
        claims = sessions.read_access_token(self._tokens, access_token)
        found = self._known_session(claims)
        if found is None:
            changes = self._changes
            async with database.transaction() as db:
                found = await sessions.live_session(db, claims)
            if changes == self._changes and self.is_open:  # else it may be stale already: good for now, not to be kept
                _keep(self._user(claims.user_id).sessions, claims.session_id, found)
        return replace(found.caller, ip=ip)

    async def standing(self, database: Database, caller: UserCaller, organization_id: UUID) -> Standing | None:
        """The caller's standing in an organisation; None when there is none such, which is never remembered."""
        known = self._users.get(caller.user_id)
        if known is not None and self.is_open and organization_id in known.standings:
            return known.standings[organization_id]
        changes = self._changes
        async with database.transaction() as db:
            found = await standing_in(db, caller.user_id, organization_id)
        if found is not None and changes == self._changes and self.is_open:
            _keep(self._user(caller.user_id).standings, organization_id, found)
        return found

    async def key(self, database: Database, text: str, ip: str) -> KeyCaller:
        """The program behind an API key, calling from `ip`; its use is written down. Raises Unauthorized."""
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

    def strike_own(self, payload: str) -> None:
        """`strike`, for what this process has just committed."""
        self.own_changes += 1
        self.strike(payload)

    async def others_know(self, database: Database) -> None:
        """Returns once every other process has struck out what this one has committed, after two seconds at the latest."""
        if self.is_open:
            await self._barrier.wait(database)

    def strike(self, payload: str) -> None:
        """Forgets the user or key that a notice names, or everybody."""
        self._changes += 1
        changed = None if payload == EVERYBODY else parse_uuid(payload)
        if changed is None:
            self._users.clear()
            self._keys.clear()
            self._digests.clear()
            return
        self._users.pop(changed, None)
        if (digest := self._digests.pop(changed, None)) is not None:
            self._keys.pop(digest, None)

    async def keep_listening(self, database: Database) -> None:
        """Hears of changes until the connection is lost, which raises."""

        def told(channel: str, payload: str) -> None:
            if channel == ACCESS_CHANNEL:
                self.strike(payload)
            else:
                self._barrier.told(database, channel, payload)

        try:
            await listen(database.url, (ACCESS_CHANNEL, *BARRIER_CHANNELS), self._open, told, self._believe, name=LISTENER)
        finally:
            self._believed_until = -1.0
            self.strike(EVERYBODY)

    def _open(self) -> None:
        self.strike(EVERYBODY)
        self._believe()

    def _believe(self) -> None:
        self._believed_until = self._clock() + _BELIEVED_SECONDS

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
                self._users.pop(next(iter(self._users)))  # whoever has been here longest is read again soon enough
            self._users[user_id] = _KnownUser()
        return self._users[user_id]


def _keep(known: dict[UUID, T], key: UUID, value: T) -> None:
    if len(known) >= _MOST_OF_A_USER:
        known.clear()
    known[key] = value
