"""What the OpenAPI document contains: names, descriptions and examples for everything that a reader or a generator needs."""

import re
from collections.abc import Iterator
from typing import Any, Final

import jsonschema

from gridfleet.api.access.guards import CallerKind
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.http.openapi import build_document, vocabulary

import_handlers()
DOCUMENT: Final = build_document(ENDPOINTS.values(), version="0", base_url="https://fleet.test")
SCHEMAS: Final[dict[str, Any]] = DOCUMENT["components"]["schemas"]
OPERATIONS: Final = {
    (method.upper(), path): operation for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
}
PROPERTIES: Final = [
    (record, name, schema) for record, described in SCHEMAS.items() for name, schema in described.get("properties", {}).items()
]


def parts(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every object inside a part of the document, with its path; examples are values, not parts."""
    if isinstance(node, dict):
        yield path, node
        for name, inner in node.items():
            if name not in ("example", "examples", "default"):
                yield from parts(inner, (*path, name))
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from parts(inner, (*path, str(number)))


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return the component that a reference names, or the object itself."""
    if "$ref" not in node:
        return node
    _, kind, name = node["$ref"].removeprefix("#/").split("/")
    component: dict[str, Any] = DOCUMENT["components"][kind][name]
    return component


def test_every_property_has_a_description_and_an_example_that_it_accepts() -> None:
    wrong = []
    for record, name, schema in PROPERTIES:
        [example] = schema["examples"]
        validator = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        wrong += [f"{record}.{name}: {error.message}" for error in validator.iter_errors(example)]
        if not schema["description"].endswith("."):
            wrong.append(f"{record}.{name}: {schema['description']}")
    assert wrong == []


def test_parameters_have_a_description_and_an_example_and_headers_are_texts() -> None:
    for row, operation in OPERATIONS.items():
        for parameter in operation.get("parameters", []):
            assert parameter["description"], row
            validator = jsonschema.Draft202012Validator({**parameter["schema"], "components": DOCUMENT["components"]})
            assert validator.is_valid(parameter["example"]), (row, parameter)
            if parameter["in"] == "header":
                assert parameter["schema"]["type"] == "string"
                assert "format" not in parameter["schema"]


def test_no_entry_of_the_vocabulary_is_unused() -> None:
    properties, words = {(record, name) for record, name, _ in PROPERTIES}, vocabulary()["properties"]
    used = {f"{record}.{name}" if f"{record}.{name}" in words else name for record, name in properties}
    assert set(words) - used == set()
    named = {parameter["name"] for operation in OPERATIONS.values() for parameter in operation.get("parameters", [])}
    assert set(vocabulary()["parameters"]) == named


def test_the_document_is_the_same_each_time() -> None:
    assert build_document(ENDPOINTS.values(), version="0", base_url="https://fleet.test") == DOCUMENT


def test_operations_are_named_in_camel_case_and_tagged() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", name)] == []
    assert OPERATIONS["GET", "/api/v1/plants"]["operationId"] == "listPlants"
    tags = {tag["name"] for tag in DOCUMENT["tags"] if tag["description"]}
    assert tags == {tag for operation in OPERATIONS.values() for tag in operation["tags"]}


def test_every_record_enum_and_response_is_a_named_component() -> None:
    for path, part in parts(DOCUMENT):
        where = "/".join(path)
        is_component = path[:2] == ("components", "schemas") and len(path) == 3
        if isinstance(part.get("enum"), list) or isinstance(part.get("properties"), dict):
            assert is_component or path[-1] == "properties", where
    for row, operation in OPERATIONS.items():
        assert all(response.keys() == {"$ref"} for response in operation["responses"].values()), row
    assert all(schema["description"] for schema in SCHEMAS.values())
    assert all(response["description"] for response in DOCUMENT["components"]["responses"].values())


def test_nothing_that_generators_drop_or_guess() -> None:
    for path, part in parts(DOCUMENT):
        where = "/".join(path)
        assert path[-1:] == ("properties",) or "allOf" not in part, where
        if part.get("type") == "object" and "properties" not in part:
            assert part.get("additionalProperties") is not None, where


def test_public_operations_say_that_they_need_no_credentials() -> None:
    for row, operation in OPERATIONS.items():
        assert (operation["security"] == []) == (ENDPOINTS[row].caller.kind is CallerKind.PUBLIC), row


def test_errors_have_one_schema_and_an_example_for_each_code() -> None:
    for row, operation in OPERATIONS.items():
        for status, reference in operation["responses"].items():
            content = resolved(reference).get("content", {}).get("application/json", {})
            if int(status) < 400 or "examples" not in content:
                continue
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorEnvelope"}, row
            for code, example in content["examples"].items():
                assert (example["value"]["code"], example["value"]["statusCode"]) == (code, int(status))


def test_answers_that_are_not_json_and_answers_of_an_unready_service_are_documented() -> None:
    history = resolved(OPERATIONS["GET", "/api/v1/telemetry"]["responses"]["200"])
    assert set(history["content"]) == {"application/json", "text/csv", "application/x-ndjson"}
    live = resolved(OPERATIONS["GET", "/api/v1/plants/{id}/live"]["responses"]["200"])
    assert set(live["content"]) == {"text/event-stream"}
    ready = OPERATIONS["GET", "/api/v1/health/ready"]["responses"]
    assert ready["503"] == ready["200"] == {"$ref": "#/components/responses/ReadinessStatus"}
    form = OPERATIONS["POST", "/api/v1/svc-esm/oauth/token"]["requestBody"]["content"]["application/x-www-form-urlencoded"]
    assert form["schema"] == {"$ref": "#/components/schemas/EsmTokenRequest"}
    limited = resolved(OPERATIONS["GET", "/api/v1/plants"]["responses"]["429"])
    assert "retry-after" in limited["headers"]
