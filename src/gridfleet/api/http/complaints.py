"""Texts of complaints. What a value must be comes from the JSON Schema of its field, which the OpenAPI document shows too."""

import difflib
import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails

__all__ = [
    "MAX_COMPLAINTS",
    "SAFE_INTEGER",
    "PlainSchemas",
    "below",
    "complaints_of",
    "refuse",
    "schema_of",
    "without_null",
]

MAX_COMPLAINTS: Final = 1_000
SAFE_INTEGER: Final = 2**53 - 1  # beyond it JSON readers disagree, and no column is wider

Location = tuple[int | str, ...]


def complaints_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return a text for each error, in the order of the fields, unknown fields last and sorted."""
    found: list[str] = []
    for unknown, group in groupby(error.errors(include_url=False), key=_location_of_unknown):
        details = list(group)
        if unknown is not None:
            known = _at(model, unknown)["properties"]
            names = sorted(str(detail["loc"][-1]) for detail in details)
            found += [f"{_path((*unknown, name))}: {_unknown(name, known, count)}" for count, name in enumerate(names)]
            continue
        for detail in details:
            path = _path(detail["loc"])
            if detail["type"] == "complaints":
                found += [f"{path}{'.' if path and text[0] != ':' else ''}{text}" for text in detail["ctx"]["complaints"]]
            else:
                found.append(f"{path or 'body'}: {_complaint(detail, model)}")
    return found[:MAX_COMPLAINTS]


def _location_of_unknown(detail: ErrorDetails) -> Location | None:
    return detail["loc"][:-1] if detail["type"] == "extra_forbidden" else None


def _path(location: Location) -> str:
    path = ""
    for part in location:
        path = path if part == "[key]" else below(path, part)
    return path


def below(path: str, name: str | int) -> str:
    """Return the path of a field or item below a path. Long names are cut."""
    text = name if isinstance(name, int) or len(name) <= 64 else f"{name[:64]}…"
    return f"{path}.{text}" if path else str(text)


def _complaint(detail: ErrorDetails, model: type[BaseModel]) -> str:
    if detail["type"] == "missing":
        return "is required"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["input"] is None:
        return "must not be null"
    if detail["type"] == "finite_number":
        return "must be a number in the range of a double"
    rule = _rule(_at(model, detail["loc"]), detail["type"])
    return f"{rule}; in an address, the + of an offset is written %2B" if _has_lost_its_plus(detail["input"]) else rule


def _has_lost_its_plus(value: Any) -> bool:
    """Return whether the value is a date-time whose `+` was not encoded in the query, so that it reads as a blank."""
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+ \d\d:?\d\d", value) is not None


def _unknown(name: str, known: Iterable[str], count: int) -> str:
    # Searching for similar names is slow, so only the first 20 unknown names get a hint.
    near = difflib.get_close_matches(name[:64], known, n=1) if count < 20 else []
    return "is not a known field" + (f" (did you mean {near[0]}?)" if near else "")


def _rule(schema: dict[str, Any], error: str) -> str:
    """Return what a value must be, from the JSON Schema of its field and the type of Pydantic's error."""
    if "enum" in schema or "const" in schema:
        return "must be one of " + ", ".join(str(choice) for choice in schema.get("enum", [schema.get("const")]))
    match schema.get("type"), schema.get("format"):
        case "string", "uuid":
            return "must be a UUID"
        case "string", "date-time":
            return "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"
        case "string", _:
            return _length(schema.get("minLength", 0), schema.get("maxLength")) if "too_" in error else "must be a string"
        case "array", _:
            low, high = schema.get("minItems", 0), schema.get("maxItems")
            if error == "too_short":
                return f"must have at least {low} item{'s' if low != 1 else ''}"
            return f"must have at most {high} items" if error == "too_long" else "must be an array"
        case "boolean", _:
            return "must be true or false"
        case "integer" | "number" as kind, _:
            signs = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
            limits = " and".join(f" {sign} {schema[limit]}" for sign, limit in signs.items() if limit in schema)
            bounded = "minimum" in schema and "maximum" in schema
            far = f" (at most {SAFE_INTEGER} from zero)" if error == "too_far" and not bounded else ""
            return f"must be {'an integer' if kind == 'integer' else 'a number'}{limits}{far}"
    return "must be an object"


def _length(low: int, high: int | None) -> str:
    if high is None:
        return f"must have at least {low} character{'s' if low != 1 else ''}"
    if low == high:
        return f"must have exactly {low} characters"
    return f"must have {low} to {high} characters" if low else f"must have at most {high} characters"


class PlainSchemas(GenerateJsonSchema):
    """JSON Schemas without titles and without null as a default."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: names say enough."""
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema without a default of null, which means an omitted field."""
        found = super().default_schema(schema)
        return {name: value for name, value in found.items() if name != "default" or value is not None}


@cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with its inner schemas under `$defs`. References lead to the OpenAPI document."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}", schema_generator=PlainSchemas)
    for described in (schema, *schema.get("$defs", {}).values()):
        described.pop("title", None)
    return schema


def without_null(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references into `root` and without the option of null."""
    if "$ref" in schema:
        return without_null(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in schema:
        return without_null(next(option for option in schema["anyOf"] if option != {"type": "null"}), root)
    return schema


def _at(model: type[BaseModel], location: Location) -> dict[str, Any]:
    """Return the schema of a location in a body."""
    root = schema_of(model)
    schema = without_null(root, root)
    for part in location:
        if part == "[key]":
            return {"type": "string"}
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        schema = without_null(inner or schema.get("additionalProperties") or {}, root)
    return schema


def refuse(complaint: str) -> Any:
    """Raise the error of a validator. Returns nothing, so that it can end a conditional expression."""
    raise ValueError(complaint)
