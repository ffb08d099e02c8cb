"""The OpenAPI 3.1 document, generated from the registry of endpoints, which the pipeline also enforces.

Every record, enum and response is a named component, so that generated clients have a type for each. `properties.toml` holds
the descriptions and examples of properties and parameters.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic.alias_generators import to_camel

from gridfleet.api.access.guards import CallerKind, CallerRule
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.openapi_responses import EXAMPLE_ID, Responses, headers
from gridfleet.api.http.schema import JsonSchemas

__all__ = ["build_document"]

_VOCABULARY: Final = Path(__file__).with_name("properties.toml")
_TIME: Final = "2026-01-31T12:00:00.000Z"
_FORMATS: Final = {"uuid": EXAMPLE_ID, "date-time": _TIME, "email": "ada@example.com"}

_CALLERS: Final = {
    CallerKind.PUBLIC: "Public.",
    CallerKind.SESSION: "Any logged-in user.",
    CallerKind.SUPER_ADMIN: "SuperAdmins only.",
    CallerKind.INTERNAL: "In production only with the internal secret in `x-internal-auth`.",
    CallerKind.ESM_CLIENT: "Clients of the sandbox ESM, with a token that it issued.",
}
_DESCRIPTION: Final = """\
Battery and solar plants, their telemetry, and the users and partners who operate them.

Texts of at least 1,024 bytes are compressed with zstd or gzip if `accept-encoding` names one of them, except for responses with
secrets.

The response to OPTIONS has status 204 and the methods of the path in `allow`, without a login. The response to HEAD has the
status and headers of GET, except for a GET that works once. Any other method is refused with METHOD_NOT_ALLOWED and `allow`."""

_TAGS: Final = {
    "account": "Pages for the links in mails.",
    "admin": "Administration of the service by SuperAdmins.",
    "alert-rules": "Rules that raise alerts, and their preview on stored values.",
    "alerts": "Alerts that rules raised.",
    "audit-events": "The record of who changed what.",
    "auth": "Login, sessions, passwords, registration and the profile of the user.",
    "commands": "Commands to all plants of the organisation.",
    "csp-report": "Reports of browsers about violations of the content security policy.",
    "device-templates": "Definitions of device types: their signals and actions.",
    "docs": "This document as a page on which the API can be tried.",
    "fleet": "All plants of an organisation together.",
    "health": "Liveness and readiness of the service.",
    "internal": "Maintenance of stored credentials.",
    "invitations": "Invitations to an organisation.",
    "notifications": "Push devices, and the log of notifications.",
    "openapi.json": "This document.",
    "organizations": "Organisations and their members.",
    "partner": "API keys of trading partners.",
    "plant-groups": "Groups of plants.",
    "plants": "Plants: registration, provisioning, lifecycle, certificates and live values.",
    "sub-devices": "Sub-devices of plants: signals, history and commands.",
    "svc-esm": "The sandbox: an ESM inside the service, for tests without a real one.",
    "telemetry": "History and newest values of a plant.",
    "trading": "The organisation's ESM, and the plans, meters and command logs of its plants.",
    "users": "User accounts.",
    "vcp": "Sites as trading partners see them.",
}
Document = dict[str, Any]


@cache
def vocabulary() -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of `properties.toml`: `properties` and `parameters`."""
    return tomllib.loads(_VOCABULARY.read_text(encoding="utf-8"))


def build_document(endpoints: Iterable[Endpoint], *, version: str, base_url: str) -> Document:
    """Return the document of these endpoints. `version` is the version of the service.

    Raises:
        KeyError: If a property, parameter or tag has no description.
    """
    writer = _Writer()
    paths: dict[str, Document] = defaultdict(dict)
    described = (endpoint for endpoint in endpoints if endpoint.in_document)
    for endpoint in sorted(described, key=lambda e: (e.path, e.method)):
        paths[endpoint.path][endpoint.method.lower()] = writer.operation(endpoint)
    tags = sorted({tag for path in paths.values() for operation in path.values() for tag in operation["tags"]})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gridfleet",
            "version": version,
            "description": _DESCRIPTION,
            "contact": {"name": "Gridfleet"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": tag, "description": _TAGS[tag]} for tag in tags],
        "paths": dict(paths),
        "components": {
            "schemas": writer.described_schemas(),
            "responses": dict(sorted(writer.responses.components.items())),
            "headers": headers(),
            "securitySchemes": _security_schemes(base_url),
        },
    }


class _Writer:
    """Builds operations and collects the components that they refer to."""

    def __init__(self) -> None:
        self.schemas = JsonSchemas()
        self.responses = Responses(self.schemas)

    def operation(self, endpoint: Endpoint) -> Document:
        """Return the operation object of an endpoint."""
        operation: Document = {
            "operationId": to_camel(endpoint.handler.__name__),
            "tags": [_tag(endpoint.path)],
            "summary": endpoint.summary,
            "description": "\n\n".join(part for part in (endpoint.description, _who(endpoint.caller)) if part),
            "security": _security(endpoint.caller),
            "responses": self.responses.of(endpoint),
        }
        if parameters := self._parameters(endpoint):
            operation["parameters"] = parameters
        if endpoint.body_type is not None:
            schema = self.schemas.taken(endpoint.body_record)
            operation["requestBody"] = {
                "required": True,
                "content": {kind: {"schema": schema} for kind in endpoint.content_types},
            }
        return operation

    def described_schemas(self) -> dict[str, Document]:
        """Return all schemas, with descriptions and examples of their properties."""
        components = self.schemas.components
        for name, schema in components.items():
            for property_name, inner in schema.get("properties", {}).items():
                inner["description"], example = _entry("properties", f"{name}.{property_name}", property_name)
                inner["examples"] = [self._example(inner, example)]
        return dict(sorted(components.items()))

    def _example(self, schema: Document, given: Any = None, depth: int = 0) -> Any:
        """Return a value of a schema: the given one if the schema accepts it, else one made from the schema."""
        if "anyOf" in schema:
            return self._example(schema["anyOf"][0], given, depth)
        if "$ref" in schema:
            return self._example(self.schemas.resolve(schema), given, depth)
        for keyword in ("const", "default"):
            if keyword in schema and schema[keyword] is not None:
                return schema[keyword]
        if "enum" in schema:
            return given if given in schema["enum"] else schema["enum"][0]
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        if schema.get("type") == "boolean":
            return True
        if schema.get("type") == "array" and not isinstance(given, list):
            return [self._example(schema["items"], given, depth + 1)] if depth < _DEEPEST else []
        if schema.get("type") == "object" and given is None:
            return self._record_example(schema, depth)
        return given

    def _record_example(self, schema: Document, depth: int) -> Document:
        name = next((name for name, component in self.schemas.components.items() if component is schema), "")
        found = {}
        for property_name in schema.get("required", []) if depth < _DEEPEST else []:
            _, example = _entry("properties", f"{name}.{property_name}", property_name)
            found[property_name] = self._example(schema["properties"][property_name], example, depth + 1)
        return found

    def _parameters(self, endpoint: Endpoint) -> list[Document]:
        found: list[Document] = []

        def add(name: str, where: str, required: bool, schema: Document, more: str = "") -> None:
            description, example = _entry("parameters", name)
            words = {"description": description + more, "example": self._example(schema, example)}
            found.append({"name": name, "in": where, "required": required, "schema": schema, **words})

        for parameter in endpoint.path_parameters:
            text: Document = {"type": "string", "minLength": 1}
            add(parameter.name, "path", True, {"type": "string", "format": "uuid"} if parameter.is_uuid else text)
        if endpoint.query_type is not None:
            for name, (schema, required) in self.schemas.fields_taken(endpoint.query_type).items():
                add(name, "query", required, schema)
        # Headers are texts for generated clients, which could not send another type.
        if endpoint.caller.kind is CallerKind.ORG_MEMBER:
            by_key = endpoint.caller.scope is not None
            by_query = endpoint.caller.by_query
            more = " An API key belongs to one organisation: with a key, the header may be omitted." if by_key else ""
            more += " `organizationId` may name it instead." if by_query else ""
            add("x-org-id", "header", not (by_key or by_query), {"type": "string"}, more)
        if endpoint.response_content_types == ("text/event-stream",):
            add("Last-Event-ID", "header", False, {"type": "string"})
        if endpoint.creates and endpoint.caller.kind is not CallerKind.PUBLIC:
            add("Idempotency-Key", "header", False, {"type": "string", "pattern": "^[!-~]{1,255}$"})
        if endpoint.tagged:
            add("If-None-Match", "header", False, {"type": "string"})
        return found


def _entry(table: str, *names: str) -> tuple[str, Any]:
    """Return the description, and the example or None, of the first of the names that a table of `vocabulary` has."""
    words = vocabulary()[table]
    description, *example = words[next((name for name in names if name in words), names[-1])]
    return description, example[0] if example else None


_DEEPEST: Final = 4
"""Levels of records in an example."""


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


def _security(rule: CallerRule) -> list[Document]:
    match rule.kind:
        case CallerKind.PUBLIC:
            return []
        case CallerKind.INTERNAL:
            return [{}, {"internal": []}]
        case CallerKind.ESM_CLIENT:
            return [{"sandbox": []}]
    return [{"bearer": []}, {"cookie": []}, *([{"key": []}] if rule.scope else [])]


def _security_schemes(base_url: str) -> Document:
    return {
        "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "`access_token` of a login."},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "gridfleet_session", "description": "Set by a login."},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "A partner's API key."},
        "internal": {
            "type": "apiKey",
            "in": "header",
            "name": "x-internal-auth",
            "description": "The service's internal secret.",
        },
        "sandbox": {
            "type": "oauth2",
            "description": "Client credentials of the sandbox ESM.",
            "flows": {"clientCredentials": {"tokenUrl": f"{base_url}/api/v1/svc-esm/oauth/token", "scopes": {}}},
        },
    }
