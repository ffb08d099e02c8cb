"""Who may do what, remembered by this process: sessions and the standing of their owners in organisations.

An entry is struck out when the database tells that its user's access changed. A change that this process commits is told
before the commit returns, so its answer already finds the entry gone; another process hears of it a moment later, over the
connection that listens. The book is used only while that connection lives: a quiet one is asked every second, and when it
has not answered for a few seconds every question goes to the database again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from uuid import UUID

from gridfleet.api._http.validation import parse_uuid
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.models import LiveSession
from gridfleet.domains.organizations.membership import standing_in
from gridfleet.domains.organizations.models import Standing
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import HEARTBEAT_SECONDS, listen
from gridfleet.kernel.errors import Unauthorized
from gridfleet.kernel.security.tokens import AccessClaims, AccessTokens

__all__ = ["ACCESS_CHANNEL", "EVERYBODY", "AccessBook"]

T = TypeVar("T")

ACCESS_CHANNEL: Final = "access_changed"
"""The channel; payloads are a user's id or EVERYBODY."""

EVERYBODY: Final = "*"

_BELIEVED_SECONDS: Final = 3 * HEARTBEAT_SECONDS
_MOST_USERS: Final = 20_000
_MOST_OF_A_USER: Final = 500
"""Sessions, and organisations, that are remembered of one user."""


@dataclass(slots=True)
class _KnownUser:
    sessions: dict[UUID, LiveSession] = field(default_factory=dict)
    standings: dict[UUID, Standing] = field(default_factory=dict)


class AccessBook:
    """What one api process knows about its callers. `strike` must hear of every change that the process itself commits."""

    def __init__(self, tokens: AccessTokens, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that only grow."""
        self._tokens = tokens
        self._clock = clock
        self._users: dict[UUID, _KnownUser] = {}
        self._changes = 0
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

    def strike(self, payload: str) -> None:
        """Forgets the user that a notice names, or everybody."""
        self._changes += 1
        user_id = None if payload == EVERYBODY else parse_uuid(payload)
        if user_id is None:
            self._users.clear()
        else:
            self._users.pop(user_id, None)

    async def keep_listening(self, database: Database) -> None:
        """Hears of changes until the connection is lost, which raises."""
        try:
            await listen(database.url, (ACCESS_CHANNEL,), self._open, lambda _, payload: self.strike(payload), self._believe)
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
