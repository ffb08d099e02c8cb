"""Coded errors: raised by domain rules, independent of HTTP. The API converts them into the error envelope.

A domain subclasses `CodedError` in its `errors.py`, one class for each code and meaning. Clients decide by `code`.
`api/error_catalogue.py` lists all codes.
"""

from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "CodedError",
    "Forbidden",
    "NotFound",
    "TooManyRequests",
    "Unauthorized",
    "ValidationFailed",
]


class CodedError(Exception):
    """A refusal with a stable code, a sentence for users, and details (`path.to.field: what is wrong`)."""

    code: ClassVar[str]
    message: ClassVar[str]

    def __init__(self, message: str | None = None, details: Sequence[str] = ()) -> None:
        self.text = message or self.message
        # A name that the request gave may have half of a surrogate pair, which no response can contain.
        self.details = [detail.encode("utf-8", "replace").decode() for detail in details]
        super().__init__(self.text)

    @property
    def status(self) -> int | None:
        """The HTTP status if it is not that of the code."""
        return None

    @property
    def headers(self) -> dict[str, str]:
        """Headers that the response must have."""
        return {}


class ValidationFailed(CodedError):
    """Invalid input. The API replaces the code by the endpoint's own if the endpoint lists no VALIDATION_ERROR."""

    code = "VALIDATION_ERROR"
    message = "The request is not valid."


class Unauthorized(CodedError):
    """The caller is not logged in, or no longer."""

    code = "UNAUTHORIZED"
    message = "Authentication is required."


class Forbidden(CodedError):
    """The caller is authenticated but lacks the permission."""

    code = "FORBIDDEN"
    message = "You may not do this."


class NotFound(CodedError):
    """The record does not exist or belongs to another organisation. Both give the same response."""

    code = "NOT_FOUND"
    message = "Not found."


class TooManyRequests(CodedError):
    """A rate limit is exceeded; `retry_after` is in seconds."""

    code = "TOO_MANY_REQUESTS"
    message = "Too many requests."

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The `Retry-After` header."""
        return {"retry-after": str(self.retry_after)}
