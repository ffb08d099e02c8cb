"""The OpenAPI 3.1 document, generated from the registry of endpoints, which the pipeline also enforces."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gridfleet.api._http.callers import CallerKind, CallerRule
from gridfleet.api._http.endpoint import Endpoint, PathParameter
from gridfleet.api._http.schema import JsonSchemas
from gridfleet.kernel.errors import CATALOGUE

__all__ = ["build_document"]

_REASONS = {200: "Success.", 201: "Created.", 204: "Done; no body."}
_ERROR_NAMES = {
    400: "Bad input, or a state that does not allow it.",
    401: "Not logged in, or the login failed.",
    403: "The caller may not do this.",
    404: "There is no such record.",
    409: "It would clash with another record.",
    413: "The body is too large.",
    429: "Too many requests; `Retry-After` says when to come back.",
    500: "A failure on the service's side.",
}
_CALLERS = {
    CallerKind.PUBLIC: "Public.",
    CallerKind.SESSION: "Any logged-in user.",
    CallerKind.SUPER_ADMIN: "SuperAdmins only.",
    CallerKind.INTERNAL: "In production only with the internal secret in `x-internal-auth`.",
    CallerKind.ESM_CLIENT: "Clients of the sandbox ESM, with a token that it gave them.",
}

Document = dict[str, Any]


def build_document(endpoints: Iterable[Endpoint], *, version: str, base_url: str) -> Document:
    """Return the document of these endpoints. `version` is the version of the service."""
    schemas = JsonSchemas()
    schemas.components["ErrorEnvelope"] = _envelope_schema()
    paths: dict[str, Document] = defaultdict(dict)
    for endpoint in sorted(endpoints, key=lambda e: (e.path, e.method)):
        paths[endpoint.path][endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gridfleet",
            "version": version,
            "description": "Storage and solar plants, their telemetry, and the people and partners who run them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "`access_token` of a login.",
                },
                "cookie": {"type": "apiKey", "in": "cookie", "name": "gridfleet_session", "description": "Set by a login."},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A partner's API key."},
                "internal": {"type": "apiKey", "in": "header", "name": "x-internal-auth"},
                "sandbox": {
                    "type": "oauth2",
                    "flows": {"clientCredentials": {"tokenUrl": f"{base_url}/api/v1/svc-esm/oauth/token", "scopes": {}}},
                },
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: JsonSchemas) -> Document:
    operation: Document = {
        "operationId": f"{endpoint.handler.__module__.removeprefix('gridfleet.api.')}.{endpoint.handler.__name__}",
        "tags": [_tag(endpoint.path)],
        "summary": endpoint.summary,
        "description": "\n\n".join(part for part in (endpoint.description, _who(endpoint.caller)) if part),
        "responses": {str(endpoint.success): _success(endpoint, schemas), **_errors(endpoint)},
    }
    if parameters := _parameters(endpoint, schemas):
        operation["parameters"] = parameters
    if endpoint.body_type is not None:
        schema = schemas.taken(endpoint.body_type)
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in endpoint.content_types}}
    if endpoint.caller.kind is CallerKind.INTERNAL:
        operation["security"] = [{}, {"internal": []}]
    elif endpoint.caller.kind is CallerKind.ESM_CLIENT:
        operation["security"] = [{"sandbox": []}]
    elif endpoint.caller.kind is not CallerKind.PUBLIC:
        operation["security"] = [{"bearer": []}, {"cookie": []}, *([{"key": []}] if endpoint.caller.scope else [])]
    return operation


def _tag(path: str) -> str:
    parts = path.removeprefix("/api/v1").split("/")
    if parts[1:2] == ["plants"] and "sub-devices" in parts:
        return "sub-devices"
    return parts[1]


def _who(rule: CallerRule) -> str:
    if rule.min_role is None:
        text = _CALLERS[rule.kind]
    else:
        text = f"Members of the organisation in `x-org-id`, at least {rule.min_role.name}; SuperAdmins in every organisation."
    return f"{text} API-key scope: `{rule.scope}`." if rule.scope else text


def _parameters(endpoint: Endpoint, schemas: JsonSchemas) -> list[Document]:
    found = [_path_parameter(parameter) for parameter in endpoint.path_parameters]
    if endpoint.query_type is not None:
        for name, (schema, required) in schemas.fields_taken(endpoint.query_type).items():
            found.append({"name": name, "in": "query", "required": required, "schema": schema})
    if endpoint.caller.kind is CallerKind.ORG_MEMBER:
        schema = {"type": "string", "format": "uuid"}
        text = "Organisation to act in."
        by_key = endpoint.caller.scope is not None
        if by_key:
            text += " An API key has one of its own: with it the header may be left out."
        found.append({"name": "x-org-id", "in": "header", "required": not by_key, "schema": schema, "description": text})
    if endpoint.creates and endpoint.caller.kind is not CallerKind.PUBLIC:
        schema = {"type": "string", "pattern": "^[!-~]{1,255}$"}
        text = "Sent again within 24 hours with the same body, the request gets its first answer again."
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema, "description": text})
    return found


def _path_parameter(parameter: PathParameter) -> Document:
    schema: Document = {"type": "string", "format": "uuid"} if parameter.is_uuid else {"type": "string", "minLength": 1}
    return {"name": parameter.name, "in": "path", "required": True, "schema": schema}


def _success(endpoint: Endpoint, schemas: JsonSchemas) -> Document:
    answer: Document = {"description": _REASONS[endpoint.success], "headers": _request_id_header()}
    if endpoint.success != 204:
        answer["content"] = {endpoint.answer_content_type: {"schema": schemas.given(endpoint.answer_type)}}
    return answer


def _errors(endpoint: Endpoint) -> Document:
    codes = [*endpoint.codes, "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"]
    if endpoint.body_type is not None:
        codes.append("PAYLOAD_TOO_LARGE")
    by_status: dict[int, set[str]] = defaultdict(set)
    for code in codes:
        by_status[CATALOGUE[code].status].add(code)
        if code == "REFRESH_TOKEN_INVALID":
            by_status[400].add(code)
    return {str(status): _error(status, by_status[status]) for status in sorted(by_status)}


def _error(status: int, codes: set[str]) -> Document:
    schema = {
        "allOf": [
            {"$ref": "#/components/schemas/ErrorEnvelope"},
            {"properties": {"statusCode": {"const": status}, "code": {"enum": sorted(codes)}}},
        ]
    }
    return {
        "description": f"{_ERROR_NAMES[status]} Codes: {', '.join(sorted(codes))}.",
        "headers": _request_id_header(),
        "content": {"application/json": {"schema": schema}},
    }


def _request_id_header() -> Document:
    return {"x-request-id": {"schema": {"type": "string", "format": "uuid"}, "description": "Repeated in logs and events."}}


def _envelope_schema() -> Document:
    return {
        "type": "object",
        "description": "Every error. Branch on `code`.",
        "properties": {
            "statusCode": {"type": "integer"},
            "error": {"type": "string"},
            "message": {"type": "string"},
            "code": {"type": "string", "enum": sorted(CATALOGUE)},
            "details": {"type": "array", "items": {"type": "string"}, "description": "`path.to.field: what is wrong`"},
        },
        "required": ["statusCode", "error", "message", "code", "details"],
        "additionalProperties": False,
    }
