"""The error envelope, built from coded errors in one place."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from gridfleet.kernel.errors import CATALOGUE, CodedError

__all__ = ["AccessRefused", "PayloadTooLarge", "UndeclaredCode", "envelope"]

_encode = msgspec.json.Encoder().encode


class PayloadTooLarge(CodedError):
    """The body is larger than the endpoint accepts."""

    code = "PAYLOAD_TOO_LARGE"
    message = "The request body is too large."


class AccessRefused(CodedError):
    """An authenticated caller lacks permission. Carries the code that the endpoint declares for this case."""

    code = "FORBIDDEN"
    message = "You may not do this."

    def __init__(self, code: str) -> None:
        super().__init__("Only a SuperAdmin may do this." if code == "SUPER_ADMIN_REQUIRED" else None)
        self.code = code  # type: ignore[misc]


class UndeclaredCode(AssertionError):
    """A handler raised a code that its endpoint does not declare. A bug, which fails the request in tests."""


def envelope(code: str, message: str, details: Sequence[str] = (), status: int | None = None) -> tuple[int, bytes]:
    """Return status and JSON body of an error response. The body always has all five fields."""
    entry = CATALOGUE[code]
    actual = status if status is not None else entry.status
    name = entry.name if actual == entry.status else HTTPStatus(actual).phrase
    body = {"statusCode": actual, "error": name, "message": message, "code": code, "details": list(details)}
    return actual, _encode(body)
