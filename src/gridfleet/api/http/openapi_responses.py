"""Responses of the OpenAPI document: a named component for each, and the error envelope."""

from collections import defaultdict
from http import HTTPStatus
from typing import Any, Final

import msgspec
from pydantic.alias_generators import to_pascal

from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.errors import envelope
from gridfleet.api.http.schema import JsonSchemas, reference

__all__ = ["EXAMPLE_ID", "Responses", "headers"]

EXAMPLE_ID: Final = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d"

_ERROR_NAMES: Final = {
    400: "Bad input, or a state that does not allow it.",
    401: "Not logged in, or the login failed.",
    403: "The caller may not do this.",
    404: "There is no such record.",
    409: "It would clash with another record.",
    413: "The body is too large.",
    429: "Too many requests.",
    500: "A failure on the service's side.",
}
_TEXTS: Final = {
    "text/csv": ("CSV", "CSV with a header row.", None),
    "application/x-ndjson": ("Lines", "One record of the JSON response a line.", None),
    "text/event-stream": (
        "Events",
        "Server-sent events with JSON as data. The description of the operation names them.",
        None,
    ),
    "text/html": ("HtmlPage", "A page.", "<!doctype html>"),
    "text/javascript": ("Script", "A script.", "'use strict'"),
    "text/css": ("Stylesheet", "A style sheet.", "body { margin: 0 }"),
}
"""Content types other than JSON: suffix of the response's name, description, and an example."""
_PROBLEM: Final = "ErrorEnvelope"

Document = dict[str, Any]


class Responses:
    """The responses of the OpenAPI document: described once under a name, to which operations refer.

    Args:
        schemas: The schemas of records, to which those of errors are added.

    Attributes:
        components: The responses by name.
    """

    def __init__(self, schemas: JsonSchemas) -> None:
        self._schemas = schemas
        self.components: dict[str, Document] = {}
        schemas.components[_PROBLEM] = _envelope_schema()
        schemas.components["ErrorCode"] = {
            "type": "string",
            "description": "What went wrong, for programs.",
            "enum": sorted(CATALOGUE),
        }

    def of(self, endpoint: Endpoint) -> Document:
        """Return the responses of an endpoint by status."""
        responses = {
            str(endpoint.success): self._success(endpoint.response, endpoint.response_content_types, endpoint.success),
            **{
                str(status): self._success(kind, ("application/json",), status)
                for status, kind in endpoint.other_responses.items()
            },
        }
        if endpoint.tagged:
            responses["304"] = self._named("NotModified", {"description": "Unchanged since the response with this entity tag."})
        codes = [*endpoint.codes, "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"]
        if endpoint.body_type is not None:
            codes.append("PAYLOAD_TOO_LARGE")
        by_status: dict[int, set[str]] = defaultdict(set)
        for code in codes:
            by_status[CATALOGUE[code].status].add(code)
            if code == "REFRESH_TOKEN_INVALID":
                by_status[400].add(code)
        return responses | {str(status): self._error(status, sorted(by_status[status])) for status in sorted(by_status)}

    def _success(self, kind: Any, content_types: tuple[str, ...], status: int) -> Document:
        if status == 204:
            return self._named("NoContent", {"description": "Done; no body."})
        name, description = "", ""
        content: Document = {}
        for content_type in content_types:
            if content_type in _TEXTS:
                suffix, text, example = _TEXTS[content_type]
                name, description = name + suffix, description or text
                # Without a type: some tools compare the schema of an event stream with each event, others with the whole text.
                kind_of_text = {} if content_type == "text/event-stream" else {"type": "string"}
                content[content_type] = {"schema": {**kind_of_text, "description": text}}
                if example is not None:
                    content[content_type]["example"] = example
            else:
                schema = self._schemas.given(kind)
                record, plural = (schema["items"], "List") if schema.get("type") == "array" else (schema, "")
                name = (record["$ref"].rsplit("/", 1)[1] if "$ref" in record else "FreeFormObject") + plural
                description = str(self._schemas.resolve(record).get("description", "An object."))
                content[content_type] = {"schema": schema}
        if len(content_types) > 1:
            name = name.split("List", 1)[0] + "History"
        return self._named(name, {"description": description, "content": content})

    def _error(self, status: int, codes: list[str]) -> Document:
        examples = {code: {"value": _example_of_error(status, code)} for code in codes}
        described: Document = {
            "description": f"{_ERROR_NAMES[status]} Codes: {', '.join(codes)}.",
            "content": {"application/json": {"schema": reference(_PROBLEM), "examples": examples}},
        }
        name = "Or".join(to_pascal(code.lower()) for code in codes)
        suffix = str(status) if codes == ["REFRESH_TOKEN_INVALID"] else ""
        return self._named(name + suffix, described, retry=status == HTTPStatus.TOO_MANY_REQUESTS)

    def _named(self, name: str, described: Document, *, retry: bool = False) -> Document:
        headers = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
        if retry:
            headers["retry-after"] = {"$ref": "#/components/headers/RetryAfter"}
        described["headers"] = headers
        if self.components.setdefault(name, described) != described:
            raise TypeError(f"two responses are called {name}")
        return {"$ref": f"#/components/responses/{name}"}


def headers() -> Document:
    """Return the headers that responses refer to."""
    return {
        "RequestId": {
            "description": "Id of the request, repeated in logs and events.",
            "schema": {"type": "string", "format": "uuid"},
            "example": EXAMPLE_ID,
        },
        "RetryAfter": {
            "description": "Seconds after which a request may be sent again.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
            "example": "30",
        },
    }


def _envelope_schema() -> Document:
    return {
        "type": "object",
        "description": "Every error. Branch on `code`.",
        "properties": {
            "statusCode": {"type": "integer"},
            "error": {"type": "string"},
            "message": {"type": "string"},
            "code": reference("ErrorCode"),
            "details": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["statusCode", "error", "message", "code", "details"],
        "additionalProperties": False,
    }


def _example_of_error(status: int, code: str) -> Document:
    meaning = CATALOGUE[code].meaning.replace("`", "")
    details = ["name: is required"] if code == "VALIDATION_ERROR" else []
    _, body = envelope(code, f"{meaning[:1].upper()}{meaning[1:]}.", details, status)
    example: Document = msgspec.json.decode(body)
    return example
