"""Every endpoint that is built says exactly what its contract row says."""

from typing import Any

import pytest

from contract.deviations import (
    BAD_PATH_ID,
    EVERY_ROW,
    FIELD_RULES,
    MORE_ANSWER_FIELDS,
    MORE_BODY_FIELDS,
    MORE_CODES,
    MORE_QUERY_FIELDS,
    MORE_RECORD_FIELDS,
)
from contract.rows import Row, built, rows
from contract.snapshot import SNAPSHOT, load
from gridfleet.api.access.guards import CallerKind
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.schema import JsonSchemas
from gridfleet.kernel.caller import OrgRole

CONTRACT = load(SNAPSHOT)
ROWS = rows(CONTRACT)
RECORDS: dict[str, Any] = CONTRACT["records"]
BUILT = built()
BOTH = sorted(set(ROWS) & set(BUILT))

_PLANTS = "/api/v1/plants/{id}"
ORG_ADMIN_ROWS: set[Row] = {
    ("DELETE", _PLANTS),
    ("POST", f"{_PLANTS}/provision"),
    ("GET", f"{_PLANTS}/provision/download"),
    ("POST", f"{_PLANTS}/mqtt-token"),
    ("POST", f"{_PLANTS}/reactivate"),
    ("POST", f"{_PLANTS}/revoke"),
    ("PATCH", "/api/v1/organizations/{orgId}/members/{memberId}"),
    ("DELETE", "/api/v1/organizations/{orgId}/members/{memberId}"),
    ("POST", "/api/v1/invitations"),
    ("DELETE", "/api/v1/invitations/{id}"),
    ("PUT", "/api/v1/trading/config"),
    ("POST", "/api/v1/trading/config"),
    ("PATCH", "/api/v1/trading/config"),
    ("POST", "/api/v1/trading/config/enable"),
    ("POST", "/api/v1/trading/config/disable"),
    ("POST", "/api/v1/trading/plants/sync"),
}
OPERATOR_READS: set[Row] = {("GET", "/api/v1/organizations/{orgId}/members"), ("GET", "/api/v1/invitations")}

SCOPES_BY_PREFIX = {
    "/api/v1/plants": "plants",
    "/api/v1/plant-groups": "plants",
    "/api/v1/device-templates": "plants",
    "/api/v1/telemetry": "telemetry",
    "/api/v1/alerts": "telemetry",
    "/api/v1/alert-rules": "telemetry",
}


def name_of(row: Row) -> str:
    return " ".join(row)


def test_every_row_is_built() -> None:
    assert sorted(set(ROWS) - set(BUILT)) == []


def test_endpoints_outside_the_contract_say_that_they_are_additions() -> None:
    assert {row for row, endpoint in BUILT.items() if endpoint.addition} == set(BUILT) - set(ROWS)


@pytest.mark.parametrize("row", BOTH, ids=name_of)
def test_caller(row: Row) -> None:
    contract, rule = ROWS[row], BUILT[row].caller
    kinds = {
        "public": CallerKind.PUBLIC,
        "session": CallerKind.SESSION,
        "org_member": CallerKind.ORG_MEMBER,
        "org_admin": CallerKind.ORG_MEMBER,
        "super_admin": CallerKind.SUPER_ADMIN,
        "internal": CallerKind.INTERNAL,
        "api_key(vcp:read)": CallerKind.ORG_MEMBER,  # "either path is accepted" (spec, Authentication 3)
    }
    assert rule.kind == kinds[contract["auth"]]
    if rule.kind is CallerKind.ORG_MEMBER:
        assert rule.min_role == decided_role(row, contract)
    if rule.kind is CallerKind.SUPER_ADMIN:
        forbidden = contract["section"] == "Device templates"
        assert rule.refusal == ("FORBIDDEN" if forbidden else "SUPER_ADMIN_REQUIRED")
    assert rule.scope == decided_scope(row)


def decided_role(row: Row, contract: dict[str, Any]) -> OrgRole:
    """Members read, OPERATORs write, ORG_ADMINs decide about access, secrets and money."""
    if row in ORG_ADMIN_ROWS or contract["section"] == "Partner API keys":
        return OrgRole.ORG_ADMIN
    if row in OPERATOR_READS:
        return OrgRole.OPERATOR
    return OrgRole.VIEWER if row[0] == "GET" else OrgRole.OPERATOR


def decided_scope(row: Row) -> str | None:
    """The API-key scope that opens the row as well; None where keys never do."""
    method, path = row
    if path.startswith("/api/v1/trading/"):
        kind = "config" if "/plants/{id}/config" in path else "commands" if path.endswith("/command-log") else "trading"
        return f"{kind}:{'read' if method == 'GET' else 'write'}"
    if row in ORG_ADMIN_ROWS or (path.startswith("/api/v1/device-templates") and method != "GET"):
        return None
    if path.startswith("/api/v1/vcp/"):
        return "vcp:read"
    if path.endswith("/commands"):
        return "commands:execute"
    if path.endswith(("/energy/today", "/signals/latest", "/telemetry")) or path.startswith("/api/v1/telemetry"):
        return "telemetry:read"
    prefix = next((p for p in sorted(SCOPES_BY_PREFIX, key=len, reverse=True) if path == p or path.startswith(f"{p}/")), None)
    if prefix is None:
        return None
    return f"{SCOPES_BY_PREFIX[prefix]}:{'read' if method == 'GET' else 'write'}"


@pytest.mark.parametrize("row", BOTH, ids=name_of)
def test_codes(row: Row) -> None:
    contract, endpoint = ROWS[row], BUILT[row]
    more, _ = MORE_CODES.get(row, (set(), ""))
    assert len(endpoint.codes) == len(set(endpoint.codes))
    assert set(endpoint.codes) == set(contract["errors"]) | more
    expected, _ = BAD_PATH_ID.get(row, (contract["bad_path_id"], ""))
    assert (endpoint.bad_path_id or "none") == expected


@pytest.mark.parametrize("row", BOTH, ids=name_of)
def test_query(row: Row) -> None:
    endpoint, schemas = BUILT[row], JsonSchemas()
    found = schemas.fields_taken(endpoint.query_type) if endpoint.query_type is not None else {}
    expected = ROWS[row].get("query", {})
    more, _ = MORE_QUERY_FIELDS.get(row, (set(), ""))
    assert set(found) == set(expected) | more
    for name, rule in expected.items():
        schema, required = found[name]
        assert required == rule.get("required", False), name
        compare_rules(row, name, schema, {**rule, "nullable": False}, schemas)


@pytest.mark.parametrize("row", BOTH, ids=name_of)
def test_body(row: Row) -> None:
    endpoint, schemas = BUILT[row], JsonSchemas()
    expected = ROWS[row].get("body", {})
    if endpoint.body_type is None:
        assert expected == {}
        return
    described = schemas.resolve(schemas.taken(endpoint.body_type))
    more, _ = MORE_BODY_FIELDS.get(row, (set(), ""))
    assert set(described["properties"]) == set(expected) | more
    assert set(described.get("required", ())) == {name for name, rule in expected.items() if rule.get("required")}
    for name, rule in expected.items():
        compare_rules(row, name, described["properties"][name], rule, schemas)


def compare_rules(row: Row, name: str, schema: dict[str, Any], rule: dict[str, Any], schemas: JsonSchemas) -> None:
    """A field's schema against the contract's rule for it."""
    options = schema.get("anyOf", [schema])
    assert ({"type": "null"} in options) == rule.get("nullable", False), f"{name}: whether null is accepted"
    plain = {**next(schemas.resolve(option) for option in options if option != {"type": "null"})}
    default = schema.get("default")
    if rule.get("default") == "now":
        assert default is None, f"{name}: the time of the call"
    elif "default" in rule:
        assert default == rule["default"], f"{name}: default"
    else:
        assert not default, f"{name}: default"
    more, _ = FIELD_RULES.get((row, name), EVERY_ROW.get(name, ({}, "")))
    expected = {**schema_of_rule(rule), **more}
    expected = {keyword: value for keyword, value in expected.items() if value is not None}
    if expected.get("format") == "email":
        plain.pop("maxLength", None)  # 254 characters, by RFC 5321
    for keyword in (
        "type",
        "format",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "enum",
        "pattern",
    ):
        assert plain.get(keyword) == expected.get(keyword), f"{name}: {keyword}"


def schema_of_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema keywords of a contract rule."""
    kind = rule["type"]
    schema: dict[str, Any] = {"type": kind}
    low, high = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
    for source, target in [
        ("min", low),
        ("max", high),
        ("format", "format"),
        ("enum", "enum"),
        ("pattern", "pattern"),
        ("minItems", "minItems"),
        ("maxItems", "maxItems"),
    ]:
        if source in rule:
            schema[target] = rule[source]
    return schema


@pytest.mark.parametrize("row", BOTH, ids=name_of)
def test_answer(row: Row) -> None:
    endpoint, success, schemas = BUILT[row], ROWS[row]["success"], JsonSchemas()
    assert endpoint.success == decided_status(row, success["shape"])
    if success["shape"] == "empty":
        assert endpoint.response is type(None)
        return
    schema = schemas.given(endpoint.response)
    if success["shape"] == "array":
        assert schema["type"] == "array"
        schema = schema["items"]
    described = schemas.resolve(schema)
    of_answer = MORE_ANSWER_FIELDS.get(row, (set(), ""))[0]
    more = of_answer | MORE_RECORD_FIELDS.get(success.get("record", ""), (set(), ""))[0]
    if success["shape"] == "page":
        more = set()
    assert set(described["properties"]) == set(success["fields"]) | set(success.get("guessed_fields", ())) | more
    if success["shape"] == "page":
        item = described["properties"]["data"]["items"]
        compare_record(success["record"], item, schemas, success["record"], extra=of_answer)
        assert set(schemas.resolve(described["properties"]["meta"])["properties"]) == {"page", "limit", "total", "totalPages"}
    elif "record" in success:
        compare_record(
            success["record"], schema, schemas, success["record"], extra=more | set(success.get("guessed_fields", ()))
        )


def decided_status(row: Row, shape: str) -> int:
    """201 where a POST makes a record, 204 without a body, else 200."""
    if shape == "empty":
        return 204
    acts = ("/login", "/refresh", "/provision", "/mqtt-token", "/commands", "/enable", "/disable", "/sync", "/flush", "/rewrap")
    changes_only = shape == "message" or row[1].endswith(acts) or row[1] == "/api/v1/trading/config"
    makes = row[1].endswith(("/register", "/register/invite", "/push-tokens"))
    return 201 if row[0] == "POST" and (makes or not changes_only) else 200


def compare_record(record: str, schema: dict[str, Any], schemas: JsonSchemas, path: str, extra: set[str] | None = None) -> None:
    """A record's field names, and those of the records inside it, where both sides show them."""
    described = schemas.resolve(schema)
    fields = RECORDS[record]["fields"]
    if not fields or "properties" not in described:
        return
    extra = (extra or set()) | MORE_RECORD_FIELDS.get(record, (set(), ""))[0]
    assert set(described["properties"]) - extra == set(fields) - extra, path
    for name, rule in fields.items():
        inner = rule.get("record") or rule.get("items", {}).get("record")
        if inner is None or name not in described["properties"]:
            continue
        options = described["properties"][name].get("anyOf", [described["properties"][name]])
        for option in options:
            element = option["items"] if option.get("type") == "array" else option
            if element != {"type": "null"} and inner not in ("SignalDefinition", "ActionDefinition"):
                compare_record(inner, element, schemas, f"{path}.{name}")


def test_no_deviation_outlives_its_reason() -> None:
    by_row = (MORE_CODES, BAD_PATH_ID, MORE_ANSWER_FIELDS, MORE_QUERY_FIELDS, MORE_BODY_FIELDS)
    assert {row for table in by_row for row in table} | {row for row, _ in FIELD_RULES} <= set(ROWS)
    assert set(MORE_RECORD_FIELDS) <= set(RECORDS)


def test_a_difference_would_be_found() -> None:
    """The comparison can fail: it finds a row that differs from its endpoint in one place."""
    row = ("POST", "/api/v1/organizations")
    schemas = JsonSchemas()
    endpoint: Endpoint = BUILT[row]
    name = schemas.resolve(schemas.taken(endpoint.body_type))["properties"]["name"]
    right = ROWS[row]["body"]["name"]
    compare_rules(row, "name", name, right, schemas)
    for wrong in ({**right, "max": 99}, {**right, "nullable": True}, {**right, "default": "x"}, {**right, "enum": ["a"]}):
        with pytest.raises(AssertionError):
            compare_rules(row, "name", name, wrong, schemas)
