"""Cross-origin resource sharing: which pages of other origins may read the API's responses (Fetch standard).

Off unless the operator names origins. Cookies are never allowed, so a page sends a token or an API key in a header.
"""

from collections.abc import Collection, Iterable
from typing import Final

from gridfleet.api.http.call import Call
from gridfleet.api.http.responses import Header

__all__ = ["CrossOrigin"]

_PREFIX: Final = "/api/"
_EVERYONE: Final = "*"
_ALLOWED: Final = (
    b"authorization, content-type, idempotency-key, if-none-match, last-event-id, traceparent, x-api-key, x-org-id,"
    b" x-request-id"
)
_EXPOSED: Final = b"allow, content-disposition, etag, idempotency-replayed, retry-after, x-request-id"
_PREFLIGHT_SECONDS: Final = b"600"


class CrossOrigin:
    """The headers of responses to pages of other origins. `origins` are those that may read them, or `*`."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def headers(self, call: Call, methods: Iterable[str]) -> list[Header]:
        """Return the headers that let the page of a request read the response.

        Args:
            call: The request.
            methods: The methods of its path.
        """
        if not self._origins or not call.path.startswith(_PREFIX):
            return []
        origin = call.headers.get("origin")
        every = _EVERYONE in self._origins
        varying: list[Header] = [] if every else [(b"vary", b"origin")]
        if origin is None or not (every or origin in self._origins):
            return varying
        allowed = [*varying, (b"access-control-allow-origin", (_EVERYONE if every else origin).encode("latin-1"))]
        if call.method == "OPTIONS" and "access-control-request-method" in call.headers:
            return [
                *allowed,
                (b"access-control-allow-methods", ", ".join(methods).encode()),
                (b"access-control-allow-headers", _ALLOWED),
                (b"access-control-max-age", _PREFLIGHT_SECONDS),
            ]
        return [*allowed, (b"access-control-expose-headers", _EXPOSED)]
