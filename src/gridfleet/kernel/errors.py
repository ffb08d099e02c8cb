"""Coded errors: what a rule raises, ignorant of HTTP until the edge turns it into the envelope.

A domain subclasses `CodedError` in its `errors.py`, one class a code and meaning. `code` is what clients branch on;
the catalogue maps it to a status and its name (spec, Errors), and to the words of `docs/errors.md`.
"""

from collections.abc import Sequence
from functools import partial
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
    """HTTP status of a code and the name that stands in the envelope's `error`; for people, in Markdown: what it means and what
    to do about it."""

    status: int
    name: str
    meaning: str
    remedy: str


_bad_request = partial(CodeStatus, 400, "Bad Request")
_unauthorized = partial(CodeStatus, 401, "Unauthorized")
_forbidden = partial(CodeStatus, 403, "Forbidden")
_not_found = partial(CodeStatus, 404, "Not Found")
_conflict = partial(CodeStatus, 409, "Conflict")

CATALOGUE: Final[dict[str, CodeStatus]] = {
    "VALIDATION_ERROR": _bad_request("query or body break a rule", "mend what `details` names"),
    "BAD_REQUEST": _bad_request(
        "the same where an endpoint has no code of its own for it, or the record's state forbids the call",
        "read `message` and `details`; fetch the record and look at its state",
    ),
    "INVALID_UUID": _bad_request("an id in the path is no UUID", "send the id as the service wrote it"),
    "UNAUTHORIZED": _unauthorized(
        "no access token or API key, or one that no longer counts",
        "refresh the session or log in; has the key been revoked, has it expired?",
    ),
    "INVALID_CREDENTIALS": _unauthorized("wrong e-mail or password", "try again; ten failures lock the address for 15 minutes"),
    "REFRESH_TOKEN_INVALID": _unauthorized(
        "the refresh cookie is expired, unknown or used before; 400 when there is none", "log in"
    ),
    "FORBIDDEN": _forbidden(
        "known, but not allowed; also a missing or foreign `x-org-id`",
        "name your organisation in `x-org-id`; ask for a higher role",
    ),
    "SUPER_ADMIN_REQUIRED": _forbidden("only SuperAdmins may", "ask one"),
    "ORG_MEMBERSHIP_REQUIRED": _forbidden("not a member of that organisation", "ask its ORG_ADMIN for an invitation"),
    "ACCOUNT_LOCKED": _forbidden("too many failed logins lately, also for the right password", "wait 15 minutes"),
    "INVITATION_EXPIRED": _forbidden("the invitation is older than seven days", "ask for a new one"),
    "DEVICE_TEMPLATE_SYSTEM_READONLY": _forbidden("system templates cannot be changed", "copy it under another name"),
    "NOT_FOUND": _not_found("no such route, or no such record", "check the address and the method"),
    "ORGANIZATION_NOT_FOUND": _not_found("no such organisation", "list them"),
    "MEMBER_NOT_FOUND": _not_found("nobody with this id in the organisation", "list the members"),
    "INVITATION_NOT_FOUND": _not_found("no such invitation, or it was revoked", "ask for a new one"),
    "PLANT_NOT_FOUND": _not_found(
        "no such plant in this organisation; for a new sub-device also: no such template",
        "check the id and `x-org-id`; read `details`",
    ),
    "SUB_DEVICE_NOT_FOUND": _not_found("the plant has no sub-device with this external id", "list the plant's sub-devices"),
    "DEVICE_TEMPLATE_NOT_FOUND": _not_found("no such template", "list the templates"),
    "API_KEY_NOT_FOUND": _not_found("no such API key", "list the keys"),
    "CONFLICT": _conflict(
        "it exists already, or something still needs it", "choose another name, or remove what depends on it"
    ),
    "EMAIL_ALREADY_REGISTERED": _conflict("an account with this e-mail exists", "log in instead"),
    "INVITATION_ALREADY_ACCEPTED": _conflict("the invitation was used", "log in"),
    "PLANT_ALREADY_EXISTS": _conflict(
        "the serial number is taken in this organisation", "look for the plant by its serial number"
    ),
    "SUB_DEVICE_EXTERNAL_ID_TAKEN": _conflict(
        "the plant has a sub-device with this external id", "choose another, or change that one"
    ),
    "DEVICE_TEMPLATE_IN_USE": _conflict("plants or sub-devices use the template", "give them another template first"),
    "INVITATION_TOKEN_MISSING": _bad_request("the link has no token", "open the link as it was mailed"),
    "DEVICE_TEMPLATE_WRONG_LEVEL": _bad_request(
        "a plant needs a template of level PLANT, a sub-device one of level SUB_DEVICE", "choose another template"
    ),
    "DEVICE_TEMPLATE_SIGNAL_INVALID": _bad_request("a signal breaks a rule", "mend what `details` names"),
    "COMMAND_ACTION_NOT_IN_TEMPLATE": _bad_request(
        "the device's template has no such action, or not with these parameters", "read `details` and the template's `actions`"
    ),
    "TRADING_CONFIG_INCOMPLETE": _bad_request("trading needs more settings first", "complete the trading configuration"),
    "ESM_NOT_CONFIGURED": _bad_request("the organisation has no ESM address or credentials", "set them"),
    "TOO_MANY_REQUESTS": CodeStatus(
        429, "Too Many Requests", "a rate limit struck", "wait the seconds that `Retry-After` says"
    ),
    "PAYLOAD_TOO_LARGE": CodeStatus(413, "Error", "the body is larger than the endpoint takes, 1 MiB as a rule", "send less"),
    "INTERNAL_SERVER_ERROR": CodeStatus(
        500, "Internal Server Error", "our fault, or the database is away", "try again later; report the `x-request-id`"
    ),
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
