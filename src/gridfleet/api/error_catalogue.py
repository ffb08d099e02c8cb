"""Every error code with its HTTP status and name (spec, Errors), and the texts of `docs/errors.md`."""

from functools import partial
from typing import Final, NamedTuple

__all__ = ["CATALOGUE", "CodeStatus"]


class CodeStatus(NamedTuple):
    """HTTP status of a code, its name in the envelope's `error`, and its meaning and remedy as Markdown for users."""

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
    "VALIDATION_ERROR": _bad_request("query or body are not valid", "correct what `details` names"),
    "BAD_REQUEST": _bad_request(
        "query or body are not valid, at endpoints without VALIDATION_ERROR; or the record's state does not allow the call",
        "read `message` and `details`; fetch the record and check its state",
    ),
    "INVALID_UUID": _bad_request("an id in the path is not a UUID", "send the id as the service returned it"),
    "UNAUTHORIZED": _unauthorized(
        "no access token or API key, or an invalid, revoked or expired one",
        "refresh the session or log in; check whether the key was revoked or has expired",
    ),
    "INVALID_CREDENTIALS": _unauthorized("wrong e-mail or password", "try again; ten failures lock the address for 15 minutes"),
    "REFRESH_TOKEN_INVALID": _unauthorized(
        "the refresh cookie is expired, unknown or already used; status 400 if there is none", "log in"
    ),
    "FORBIDDEN": _forbidden(
        "the caller is not allowed to do this; also: `x-org-id` is missing or names another organisation",
        "send your organisation in `x-org-id`; ask for a higher role",
    ),
    "SUPER_ADMIN_REQUIRED": _forbidden("only SuperAdmins are allowed to do this", "ask a SuperAdmin"),
    "ORG_MEMBERSHIP_REQUIRED": _forbidden(
        "the caller is not a member of that organisation", "ask its ORG_ADMIN for an invitation"
    ),
    "ACCOUNT_LOCKED": _forbidden(
        "too many failed logins (also refuses the right password), or a SuperAdmin has disabled the account",
        "wait 15 minutes; if `message` names a disabled account, ask a SuperAdmin",
    ),
    "INVITATION_EXPIRED": _forbidden("the invitation is older than seven days", "ask for a new one"),
    "DEVICE_TEMPLATE_SYSTEM_READONLY": _forbidden("system templates cannot be changed", "copy it under another name"),
    "NOT_FOUND": _not_found("no such route, or no such record", "check the address"),
    "ORGANIZATION_NOT_FOUND": _not_found("no such organisation", "list the organisations"),
    "MEMBER_NOT_FOUND": _not_found("the organisation has no member with this id", "list the members"),
    "INVITATION_NOT_FOUND": _not_found("no such invitation, or it was revoked", "ask for a new one"),
    "PLANT_NOT_FOUND": _not_found(
        "no such plant in this organisation; for a new sub-device also: no such template",
        "check the id and `x-org-id`; read `details`",
    ),
    "SUB_DEVICE_NOT_FOUND": _not_found("the plant has no sub-device with this external id", "list the plant's sub-devices"),
    "DEVICE_TEMPLATE_NOT_FOUND": _not_found("no such template", "list the templates"),
    "API_KEY_NOT_FOUND": _not_found("no such API key", "list the keys"),
    "METHOD_NOT_ALLOWED": CodeStatus(
        405, "Method Not Allowed", "the route has no such method", "use a method that the header `Allow` names"
    ),
    "CONFLICT": _conflict(
        "the record exists already, or another record depends on it", "choose another name, or delete what depends on it"
    ),
    "EMAIL_ALREADY_REGISTERED": _conflict("an account with this e-mail exists", "log in instead"),
    "INVITATION_ALREADY_ACCEPTED": _conflict("the invitation was already used", "log in"),
    "PLANT_ALREADY_EXISTS": _conflict(
        "the organisation has a plant with this serial number", "find the plant by its serial number"
    ),
    "SUB_DEVICE_EXTERNAL_ID_TAKEN": _conflict(
        "the plant has a sub-device with this external id", "choose another id, or change that sub-device"
    ),
    "DEVICE_TEMPLATE_IN_USE": _conflict("plants or sub-devices use the template", "assign them another template first"),
    "INVITATION_TOKEN_MISSING": _bad_request("the link has no token", "open the complete link from the mail"),
    "DEVICE_TEMPLATE_WRONG_LEVEL": _bad_request(
        "a plant needs a template of level PLANT, a sub-device a template of level SUB_DEVICE", "choose another template"
    ),
    "DEVICE_TEMPLATE_SIGNAL_INVALID": _bad_request("a signal is not valid", "correct what `details` names"),
    "COMMAND_ACTION_NOT_IN_TEMPLATE": _bad_request(
        "the device's template has no such action, or other parameters", "read `details` and the template's `actions`"
    ),
    "TRADING_CONFIG_INCOMPLETE": _bad_request("required settings are missing", "complete the trading configuration"),
    "ESM_NOT_CONFIGURED": _bad_request(
        "the organisation has no ESM address or credentials", "set them in the trading configuration"
    ),
    "TOO_MANY_REQUESTS": CodeStatus(
        429,
        "Too Many Requests",
        "a limit of requests or records was exceeded, or another request is changing the same record",
        "wait for the number of seconds in `Retry-After`",
    ),
    "PAYLOAD_TOO_LARGE": CodeStatus(
        413, "Error", "the body is larger than the endpoint allows, usually 1 MiB", "send a smaller body"
    ),
    "INTERNAL_SERVER_ERROR": CodeStatus(
        500,
        "Internal Server Error",
        "an error in the service, or the database is not available",
        "try again later; report the `x-request-id`",
    ),
}
