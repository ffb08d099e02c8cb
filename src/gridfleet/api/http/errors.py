"""The error envelope, built from coded errors in one place, and the headers of every response."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.api.http.call import Call
from gridfleet.api.http.responses import Header, Response
from gridfleet.kernel.errors import CodedError, TooManyRequests

__all__ = [
    "MethodNotAllowed",
    "PayloadTooLarge",
    "RecordBusy",
    "UndeclaredCode",
    "envelope",
    "error_response",
    "security_headers",
]

_JSON: Final[Header] = (b"content-type", b"application/json")

_encode = msgspec.json.Encoder().encode


class MethodNotAllowed(CodedError):
    """The path has endpoints, but none of the request's method. `methods` are those that it has."""

    code = "METHOD_NOT_ALLOWED"
    message = "The path has no such method."

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__()
        self.methods = methods

    @property
    def headers(self) -> dict[str, str]:
        """The `Allow` header."""
        return {"allow": ", ".join(self.methods)}


class PayloadTooLarge(CodedError):
    """The body is larger than the endpoint accepts."""

    code = "PAYLOAD_TOO_LARGE"
    message = "The request body is too large."


class RecordBusy(TooManyRequests):
    """A transaction locks a record for longer than a request waits, waits for this one too, or deleted its organisation."""

    message = "Another request is changing the same record."


class UndeclaredCode(AssertionError):
    """A handler raised a code that its endpoint does not declare. A bug, which fails the request in tests."""


def envelope(code: str, message: str, details: Sequence[str] = (), status: int | None = None) -> tuple[int, bytes]:
    """Return status and JSON body of an error response. The body always has all five fields."""
    entry = CATALOGUE[code]
    actual = status if status is not None else entry.status
    name = entry.name if actual == entry.status else HTTPStatus(actual).phrase
    body = {"statusCode": actual, "error": name, "message": message, "code": code, "details": list(details)}
    return actual, _encode(body)


def security_headers(base_url: str) -> list[Header]:
    """Return the headers of every response: they forbid framing, sniffing, scripts, caching and loading by other sites.

    Args:
        base_url: The public URL of the service. If it begins with `https://`, a header requires TLS for a year (HSTS).
    """
    headers = [
        (b"server", b"gridfleet"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    if base_url.startswith("https://"):
        headers.append((b"strict-transport-security", b"max-age=31536000"))
    return headers


def error_response(call: Call, headers: list[Header], error: CodedError | None, code: str | None = None) -> Response:
    """Return the envelope of a coded error, or of an unexpected failure if `error` is None. `code` replaces the error's."""
    if error is None:
        status, body = envelope("INTERNAL_SERVER_ERROR", "Something went wrong on our side.")
        extra: list[Header] = []
    else:
        replaced = code is not None and code != error.code
        status, body = envelope(code or error.code, error.text, error.details, None if replaced else error.status)
        extra = [(name.lower().encode(), value.encode("latin-1")) for name, value in error.headers.items()]
    return Response(status, [_JSON, (b"x-request-id", call.request_id.encode()), *extra, *headers], body)
