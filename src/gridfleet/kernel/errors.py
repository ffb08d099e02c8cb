"""Coded errors: what a rule raises, ignorant of HTTP until the edge turns it into the envelope.

A domain subclasses `CodedError` in its `errors.py`, one class a code and meaning. `code` is what clients branch on;
the catalogue maps it to a status and its name (spec, Errors).
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

__all__ = [
    "CATALOGUE",
    "CodeStatus",
    "CodedError",
    "Forbidden",
    "NotFound",
    "TooManyRequests",
    "Unauthorized",
    "ValidationFailed",
]


class CodeStatus(NamedTuple):
    """HTTP status of a code and the name that stands in the envelope's `error`."""

    status: int
    name: str


_BAD_REQUEST = CodeStatus(400, "Bad Request")
_UNAUTHORIZED = CodeStatus(401, "Unauthorized")
_FORBIDDEN = CodeStatus(403, "Forbidden")
_NOT_FOUND = CodeStatus(404, "Not Found")
_CONFLICT = CodeStatus(409, "Conflict")

CATALOGUE: Final[dict[str, CodeStatus]] = {
    "VALIDATION_ERROR": _BAD_REQUEST,
    "BAD_REQUEST": _BAD_REQUEST,
    "INVALID_UUID": _BAD_REQUEST,
    "UNAUTHORIZED": _UNAUTHORIZED,
    "INVALID_CREDENTIALS": _UNAUTHORIZED,
    "REFRESH_TOKEN_INVALID": _UNAUTHORIZED,
    "FORBIDDEN": _FORBIDDEN,
    "SUPER_ADMIN_REQUIRED": _FORBIDDEN,
    "ORG_MEMBERSHIP_REQUIRED": _FORBIDDEN,
    "ACCOUNT_LOCKED": _FORBIDDEN,
    "INVITATION_EXPIRED": _FORBIDDEN,
    "DEVICE_TEMPLATE_SYSTEM_READONLY": _FORBIDDEN,
    "NOT_FOUND": _NOT_FOUND,
    "ORGANIZATION_NOT_FOUND": _NOT_FOUND,
    "MEMBER_NOT_FOUND": _NOT_FOUND,
    "INVITATION_NOT_FOUND": _NOT_FOUND,
    "PLANT_NOT_FOUND": _NOT_FOUND,
    "SUB_DEVICE_NOT_FOUND": _NOT_FOUND,
    "DEVICE_TEMPLATE_NOT_FOUND": _NOT_FOUND,
    "API_KEY_NOT_FOUND": _NOT_FOUND,
    "CONFLICT": _CONFLICT,
    "EMAIL_ALREADY_REGISTERED": _CONFLICT,
    "INVITATION_ALREADY_ACCEPTED": _CONFLICT,
    "PLANT_ALREADY_EXISTS": _CONFLICT,
    "SUB_DEVICE_EXTERNAL_ID_TAKEN": _CONFLICT,
    "DEVICE_TEMPLATE_IN_USE": _CONFLICT,
    "INVITATION_TOKEN_MISSING": _BAD_REQUEST,
    "DEVICE_TEMPLATE_WRONG_LEVEL": _BAD_REQUEST,
    "DEVICE_TEMPLATE_SIGNAL_INVALID": _BAD_REQUEST,
    "COMMAND_ACTION_NOT_IN_TEMPLATE": _BAD_REQUEST,
    "TRADING_CONFIG_INCOMPLETE": _BAD_REQUEST,
    "ESM_NOT_CONFIGURED": _BAD_REQUEST,
    "TOO_MANY_REQUESTS": CodeStatus(429, "Too Many Requests"),
    "PAYLOAD_TOO_LARGE": CodeStatus(413, "Error"),
    "INTERNAL_SERVER_ERROR": CodeStatus(500, "Internal Server Error"),
}


class CodedError(Exception):
    """A refusal with a stable code, a sentence for people, and details (`path.to.field: what is wrong`)."""

    code: ClassVar[str]
    message: ClassVar[str]

    def __init__(self, message: str | None = None, details: Sequence[str] = ()) -> None:
        self.text = message or self.message
        self.details = list(details)
        super().__init__(self.text)

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CATALOGUE[self.code].status

    @property
    def headers(self) -> dict[str, str]:
        """Headers the answer must carry."""
        return {}


class ValidationFailed(CodedError):
    """Bad input. The edge replaces the code by the row's own where the row lists no VALIDATION_ERROR."""

    code = "VALIDATION_ERROR"
    message = "The request is not valid."


class Unauthorized(CodedError):
    """Nobody is logged in, or not any more."""

    code = "UNAUTHORIZED"
    message = "Authentication is required."


class Forbidden(CodedError):
    """The caller is known and may not."""

    code = "FORBIDDEN"
    message = "You may not do this."


class NotFound(CodedError):
    """The record is absent, or another organisation's: both answer alike."""

    code = "NOT_FOUND"
    message = "Not found."


class TooManyRequests(CodedError):
    """A rate limit struck; `retry_after` in seconds."""

    code = "TOO_MANY_REQUESTS"
    message = "Too many requests."

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """When to come back."""
        return {"retry-after": str(self.retry_after)}
