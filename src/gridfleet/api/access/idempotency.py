"""`Idempotency-Key`: a creating request that is repeated within 24 hours gets its first response again.

A key belongs to one caller, organisation, method and path. Responses are stored encrypted, because some contain secrets that
are not stored in clear anywhere else. An organisation has `_MOST_BYTES_AN_HOUR` for them in each process: one script must not
fill the disk of all.
"""

import hashlib
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from gridfleet.kernel.caller import Caller, OrgScope, PlatformScope
from gridfleet.kernel.db import Connection, idempotency
from gridfleet.kernel.errors import TooManyRequests, ValidationFailed
from gridfleet.kernel.hourly import HourlyAmounts
from gridfleet.kernel.security.keyring import Keyring

if TYPE_CHECKING:
    from gridfleet.api.http.call import Call

__all__ = ["FirstResponse", "KeptBytes", "key_of"]

_KEY: Final = re.compile(r"[!-~]{1,255}")
_LONGEST_SCOPE_BYTES: Final = 1_000
"""A longer one is replaced by its digest: an entry of the index may have 2,704 bytes."""
_MOST_BYTES_AN_HOUR: Final = 64 * 1024 * 1024
_ROW_BYTES: Final = 200
"""What a stored response takes besides its body and, twice, its key and scope: once in the row, once in the index."""


class KeptBytes:
    """The bytes of responses that this process has stored in the present hour, by owner."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self._bytes = HourlyAmounts[str](clock)

    def add(self, owner: str, size: int) -> None:
        """Count a response of `size` bytes.

        Raises:
            TooManyRequests: The owner has no room for it in this hour.
        """
        if self._bytes.of(owner) + size > _MOST_BYTES_AN_HOUR:
            raise TooManyRequests(math.ceil(self._bytes.seconds_left()))
        self._bytes.add(owner, size)


def key_of(call: "Call") -> str | None:
    """Return the caller's key, or None without the header.

    Raises:
        ValidationFailed: If the key is not 1 to 255 printable ASCII characters without spaces.
    """
    key = call.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ValidationFailed(details=["Idempotency-Key: must have 1 to 255 printable ASCII characters without spaces"])
    return key


@dataclass(frozen=True, slots=True)
class FirstResponse:
    """The first response to a request with a key: read if it is stored, otherwise stored."""

    _keyring: Keyring
    _kept_bytes: KeptBytes
    _owner: str
    _caller_id: UUID
    _scope: str
    _key: str
    _request_hash: bytes

    @property
    def _row(self) -> dict[str, Any]:
        return {"table": "idempotent_answer", "column": "answer", "row_id": f"{self._caller_id}|{self._scope}|{self._key}"}

    @classmethod
    def of(
        cls, call: "Call", query: bytes, caller: Caller, org: OrgScope | PlatformScope | None, body: bytes
    ) -> "FirstResponse | None":
        """Return the first response to this request; None if the request has no `Idempotency-Key`.

        Raises:
            ValidationFailed: The key is malformed.
        """
        key = key_of(call)
        if key is None:
            return None
        organization_id = org.organization_id if isinstance(org, OrgScope) else None
        scope = f"{organization_id or '-'} {call.method} {call.storable_path}"
        if len(encoded := scope.encode()) > _LONGEST_SCOPE_BYTES:
            scope = hashlib.sha256(encoded).hexdigest()
        digest = hashlib.sha256(query + b"\0" + body).digest()
        owner = str(organization_id or caller.id)
        return cls(call.state.keyring, call.state.kept_bytes, owner, caller.id, scope, key, digest)

    async def earlier(self, db: Connection) -> tuple[int, bytes] | None:
        """Return status and body of the first response, or None if this request is the first and now owns the key.

        Raises:
            ValidationFailed: If the key was used with another body.
        """
        if await idempotency.claim(db, self._caller_id, self._scope, self._key, self._request_hash):
            await idempotency.delete_old(db)
            return None
        kept = await idempotency.find(db, self._caller_id, self._scope, self._key)
        if kept.request_hash != self._request_hash:
            raise ValidationFailed(details=["Idempotency-Key: must not be used again with another body"])
        return kept.status, self._keyring.decrypt(kept.response, kept.key_version, **self._row)

    async def keep(self, db: Connection, status: int, body: bytes) -> None:
        """Store the response to this request. Raises TooManyRequests if its organisation has stored too much in this hour."""
        self._kept_bytes.add(self._owner, len(body) + 2 * (len(self._scope.encode()) + len(self._key)) + _ROW_BYTES)
        encrypted = self._keyring.encrypt(body, **self._row)
        await idempotency.keep(db, self._caller_id, self._scope, self._key, status, encrypted, self._keyring.current_version)
