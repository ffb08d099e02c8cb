"""Where an endpoint rightly says more, or other, than its contract row. Each entry has its reason.

Additions to the interface and rules that the contract leaves open are decided in the project's decisions page; nothing
is listed here that the contract states.
"""

from typing import Final

from gridfleet.domains.notifications.push_tokens.registration import EXPO_PATTERN

Row = tuple[str, str]

_COMMANDS: Final[Row] = ("POST", "/api/v1/plants/{plantId}/sub-devices/{externalId}/commands")
_SUB_DEVICES: Final[Row] = ("POST", "/api/v1/plants/{plantId}/sub-devices")
_LIST_SUB_DEVICES: Final[Row] = ("GET", "/api/v1/plants/{plantId}/sub-devices")
_PATCH_SUB_DEVICE: Final[Row] = ("PATCH", "/api/v1/plants/{plantId}/sub-devices/{externalId}")
_REVOKE: Final[Row] = ("POST", "/api/v1/plants/{id}/revoke")
_ALERTS: Final[Row] = ("GET", "/api/v1/alerts")
_NEW_RULE: Final[Row] = ("POST", "/api/v1/alert-rules")
_CHANGED_RULE: Final[Row] = ("PATCH", "/api/v1/alert-rules/{id}")
_METERS: Final[Row] = ("GET", "/api/v1/trading/plants/{id}/meters")
_COMMAND_LOG: Final[Row] = ("GET", "/api/v1/trading/plants/{id}/command-log")
_TRADING_CONFIG: Final[Row] = ("POST", "/api/v1/trading/config")
_NEW_SANDBOX_PLANT: Final[Row] = ("POST", "/api/v1/svc-esm/admin/plants")
_SANDBOX_PLANT: Final[Row] = ("PATCH", "/api/v1/svc-esm/admin/plants/{id}")
_SANDBOX_OF_ORGANIZATION: Final[tuple[Row, ...]] = (
    ("POST", "/api/v1/svc-esm/admin/enable"),
    ("POST", "/api/v1/svc-esm/admin/disable"),
    ("GET", "/api/v1/svc-esm/admin/status"),
)
_SANDBOX_PLANTS: Final[tuple[Row, ...]] = (
    ("GET", "/api/v1/svc-esm/admin/plants"),
    _NEW_SANDBOX_PLANT,
    ("GET", "/api/v1/svc-esm/admin/plants/{id}"),
    _SANDBOX_PLANT,
    ("DELETE", "/api/v1/svc-esm/admin/plants/{id}"),
)
_PUSH_TOKENS: Final[Row] = ("POST", "/api/v1/notifications/push-tokens")

_RULE_FIELDS: Final = {"forSeconds", "clearThreshold", "autoResolve", "unit"}

MORE_CODES: Final[dict[Row, tuple[set[str], str]]] = {
    _REVOKE: (
        {"BAD_REQUEST", "PLANT_NOT_FOUND", "UNAUTHORIZED", "FORBIDDEN", "INTERNAL_SERVER_ERROR"},
        "the row shows no codes; decided: a malformed id or a wrong state is BAD_REQUEST",
    ),
    _COMMANDS: ({"INVALID_UUID"}, "the row has no code for a malformed plantId"),
    ("GET", "/api/v1/organizations/{orgId}/members"): ({"VALIDATION_ERROR"}, "the row has no code for bad paging"),
    ("PATCH", "/api/v1/plants/{id}"): ({"PLANT_ALREADY_EXISTS"}, "the row has no code for a taken serial number"),
    ("PATCH", "/api/v1/device-templates/{id}"): ({"FORBIDDEN"}, "the section gives FORBIDDEN to all but SuperAdmins"),
    ("DELETE", "/api/v1/device-templates/{id}"): ({"FORBIDDEN"}, "the section gives FORBIDDEN to all but SuperAdmins"),
    _METERS: (
        {"PLANT_NOT_FOUND", "UNAUTHORIZED", "FORBIDDEN", "INTERNAL_SERVER_ERROR"},
        "the row says that further answers are not shown",
    ),
    **dict.fromkeys(
        _SANDBOX_OF_ORGANIZATION,
        ({"UNAUTHORIZED", "SUPER_ADMIN_REQUIRED", "ORGANIZATION_NOT_FOUND"}, "decided: the section lists no refusals"),
    ),
    **dict.fromkeys(_SANDBOX_PLANTS, ({"UNAUTHORIZED", "SUPER_ADMIN_REQUIRED"}, "decided: the section lists no refusals")),
    ("POST", "/api/v1/auth/register/invite"): (
        {"INVITATION_NOT_FOUND", "INVITATION_EXPIRED", "INVITATION_ALREADY_ACCEPTED", "EMAIL_ALREADY_REGISTERED"},
        "the row shows VALIDATION_ERROR only, but invitations end in known ways",
    ),
}
"""Codes beyond the row's."""

BAD_PATH_ID: Final[dict[Row, tuple[str, str]]] = {
    _REVOKE: ("BAD_REQUEST", "the row shows no codes"),
    _COMMANDS: ("INVALID_UUID", "the row gives none"),
}
"""The code for a malformed path id where the row gives none."""

MORE_QUERY_FIELDS: Final[dict[Row, tuple[set[str], str]]] = {
    ("GET", "/api/v1/users"): ({"q", "role", "disabled"}, "filters that people need"),
    ("GET", "/api/v1/organizations"): ({"q"}, "filters that people need"),
    ("GET", "/api/v1/organizations/{orgId}/members"): ({"q", "role"}, "filters that people need"),
    _ALERTS: ({"plantId", "status", "severity", "from", "to"}, "filters that people need"),
}
"""Query fields beyond the row's."""

MORE_BODY_FIELDS: Final[dict[Row, tuple[set[str], str]]] = {
    **dict.fromkeys((_NEW_RULE, _CHANGED_RULE), (_RULE_FIELDS, "rules that look further than one value")),
    _SANDBOX_PLANT: ({"esiState"}, "lets a plant be tried that is not ready"),
    **dict.fromkeys(
        (("POST", "/api/v1/plants"), ("PATCH", "/api/v1/plants/{id}")),
        ({"latitude", "longitude", "tag", "timeZone"}, "a map and the days of a plant need its place"),
    ),
    **dict.fromkeys(
        (("POST", "/api/v1/organizations"), ("PATCH", "/api/v1/organizations/{id}")),
        ({"timeZone"}, "the zone of plants that have none of their own"),
    ),
    ("PATCH", "/api/v1/auth/me"): ({"phone"}, "where text messages about critical alerts go"),
}
"""Body fields beyond the row's."""

MORE_RECORD_FIELDS: Final[dict[str, tuple[set[str], str]]] = {
    "Alert": (
        {
            "plantName",
            "ruleId",
            "ruleName",
            "metric",
            "condition",
            "threshold",
            "value",
            "unit",
            "measuredAt",
            "acknowledgedByName",
        },
        "what a list of alerts shows without further requests",
    ),
    "AlertRule": (_RULE_FIELDS, "rules that look further than one value"),
    **dict.fromkeys(
        ("Plant", "PlantDetailed"),
        (
            {"timeZone", "effectiveTimeZone", "previousCertificateValidUntil"},
            "the zone in which the plant's days begin, and whether a renewal ends a certificate that is in use",
        ),
    ),
    "Organisation": ({"timeZone"}, "the zone of plants that have none of their own"),
    "SandboxEsmPlant": ({"version"}, "says whether a plan has arrived"),
    "ConnectionDetails": ({"tls", "addresses"}, "whether the port speaks TLS, and the further addresses"),
    "ApiKey": ({"allowedPlantIds", "revokedAt"}, "what a key was limited to when it was made, and why it is not active"),
    "User": ({"disabledAt"}, "whether the user may log in"),
    "SessionOrganization": ({"timeZone"}, "the zone in which lists over several plants show times"),
}
"""Fields of a record beyond the contract's, wherever it is answered."""

EVERY_ROW: Final[dict[str, tuple[dict[str, object], str]]] = {
    "page": ({"maximum": 1_000}, "decided: the records before a page cost the database time"),
}
"""Rules of a field beyond the contract's in every row that has it."""

FIELD_RULES: Final[dict[tuple[Row, str], tuple[dict[str, object], str]]] = {
    (_COMMAND_LOG, "commandType"): (
        {"enum": ["SITE_SETPOINT", "DEVICE_COMMAND", "MODE_CHANGE", "EMERGENCY", "SCHEDULE", "CONFIG"]},
        "decided: every type of order can be filtered",
    ),
    (_SUB_DEVICES, "externalId"): (
        {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"},
        "length and characters are not shown in the contract",
    ),
    (_SUB_DEVICES, "name"): ({"minLength": 1}, "a required name is not empty"),
    (_PATCH_SUB_DEVICE, "name"): ({"minLength": 1}, "a name is not empty"),
    (("POST", "/api/v1/device-templates"), "version"): ({"maximum": 2_147_483_647}, "what the column holds"),
    **{
        (row, field): ({"minLength": 1}, "a rule without a name or a metric says nothing")
        for row in (_NEW_RULE, _CHANGED_RULE)
        for field in ("name", "metric")
    },
    (_PUSH_TOKENS, "token"): ({"pattern": EXPO_PATTERN}, "the form of Expo's tokens"),
    (_PUSH_TOKENS, "platform"): ({"maxLength": 50}, "the name of a platform, not a text"),
    (_TRADING_CONFIG, "esmApiUrl"): ({"minLength": 1, "maxLength": 2048}, "no URL that is called is longer"),
    (_TRADING_CONFIG, "esmClientId"): ({"minLength": 1, "maxLength": 255}, "length not shown"),
    (_TRADING_CONFIG, "esmClientSecret"): ({"minLength": 1, "maxLength": 1024}, "length not shown"),
    (_NEW_SANDBOX_PLANT, "externalPlantId"): (
        {"pattern": r"^(?!\.{1,2}$)[^/\\]*$"},
        "the sandbox is asked for its plants by path",
    ),
    **{
        (row, field): ({"minimum": 0, "maximum": 1_000_000_000}, "an amount")
        for row in (_NEW_SANDBOX_PLANT, _SANDBOX_PLANT)
        for field in ("capacityKwh", "fvePeakPowerKwp")
    },
    (_LIST_SUB_DEVICES, "search"): ({"maxLength": 255}, "no name or number is longer"),
}
"""Rules of query and body fields beyond the row's, as JSON Schema keywords; None removes one."""

MORE_ANSWER_FIELDS: Final[dict[Row, tuple[set[str], str]]] = {
    _COMMANDS: ({"commandId"}, "lets the sender find the command again"),
    ("GET", "/api/v1/plant-groups"): ({"plantCount"}, "what a list of groups shows without further requests"),
    ("GET", "/api/v1/plant-groups/{id}"): ({"plantCount", "deviceCount"}, "what a page of members does not show"),
    ("GET", "/api/v1/users"): ({"organizationCount"}, "what a list of accounts is read for"),
    ("GET", "/api/v1/invitations"): ({"joinedAt"}, "whether an accepted one can still be revoked"),
    ("GET", "/api/v1/users/{id}"): ({"organizations"}, "where the user is a member"),
    ("GET", "/api/v1/organizations"): ({"memberCount", "plantCount"}, "what a list of tenants is read for"),
    ("GET", "/api/v1/plants/{plantId}/sub-devices/{externalId}/telemetry"): ({"unit"}, "a template's units may be edited"),
}
"""Top-level fields of the answer beyond the row's; of a page, fields of its records."""
