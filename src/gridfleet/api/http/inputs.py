"""Input of calls: Pydantic models whose mistakes are all listed at once, as `path.to.field: what is wrong`.

`Input` is the base of bodies and queries. It makes Pydantic strict: texts are trimmed and have no control characters, ids
and times have one form, 5.0 is the integer 5 and "5" is not, and free-form values hold only what every JSON reader and
PostgreSQL can represent. `complaints.py` words the mistakes.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

from msgspec import UNSET
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function, no_info_before_validator_function

from gridfleet.api.http.complaints import (
    MAX_COMPLAINTS,
    SAFE_INTEGER,
    below,
    complaints_of,
    schema_of,
    without_null,
)
from gridfleet.domains.identity.emails import is_address
from gridfleet.kernel.db import json_size
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import parse_uuid
from gridfleet.kernel.time_zones import is_time_zone

__all__ = [
    "MAX_DEPTH",
    "NOT_NULL",
    "As",
    "Email",
    "Input",
    "Metadata",
    "Pattern",
    "TimeZone",
    "omitted",
    "read",
    "read_query",
    "refuse",
]

MAX_DEPTH: Final = 32
"""Levels of nesting inside a free-form value."""

_MAX_METADATA: Final = 32 * 1024
_MOST_ITEMS: Final = 30_000
"""Items of an array without a limit of its own. A body of 1 MiB has room for 27,000 ids, but for 524,000 short items."""
_MOST_VALUES: Final = _MAX_METADATA // 2
"""Values of a free-form value: as many as metadata have room for. A body of 1 MiB has room for 524,000."""
_MOST_MISTAKES: Final = 10_000
"""Mistakes that are examined. Each takes some ten microseconds of the event loop, in which all other requests wait."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)\Z")
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?\Z")

Model = TypeVar("Model", bound="Input")


class Input(BaseModel):
    """A body or query. Its fields have camel case in JSON, and unknown fields are refused.

    A subclass may define `complaints(self) -> Iterator[str]` for rules across fields. It runs when all fields are valid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        model: Any = handler.resolve_ref_schema(schema)
        inner = model
        while inner["type"] != "model-fields":
            inner = inner["schema"]
        for field in inner["fields"].values():
            field["schema"] = _strict(field["schema"], handler.resolve_ref_schema)
        if hasattr(cls, "complaints"):
            # Changed in place, so that the model keeps its name in JSON Schemas.
            unchecked = {name: part for name, part in model.items() if name != "ref"}
            checked = no_info_after_validator_function(_checked, unchecked, ref=model.get("ref"))
            model.clear()
            model.update(checked)
        return schema


@dataclass(frozen=True)
class Pattern:
    """Restricts a text to a regular expression. `rule` is the complaint about other texts."""

    expression: str
    rule: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the text with this check."""
        found = re.compile(self.expression).search
        return no_info_after_validator_function(lambda text: text if found(text) else refuse(self.rule), handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON Schema with the expression."""
        return {**handler(schema), "pattern": self.expression}


@dataclass(frozen=True)
class As:
    """Reads a record of a domain with a model that has the same fields: `Annotated[TimeBlock, As(TimeBlockInput)]`."""

    model: type[Input]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, whose result is made into the record."""
        return no_info_after_validator_function(lambda found: source(**dict(found)), handler.generate_schema(self.model))


class _NotNull:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        inner: CoreSchema = schema["schema"] if schema["type"] == "nullable" else schema
        return inner


NOT_NULL: Final = _NotNull()
"""Marks an optional body field that may be omitted but not null: `Annotated[Description | None, NOT_NULL] = None`."""


def omitted() -> Any:
    """Return the default of a PATCH's field, which is UNSET if the field is omitted."""
    return Field(default_factory=lambda: UNSET)


def _checked(record: Any) -> Any:
    if found := list(record.complaints()):
        raise PydanticCustomError("complaints", "see the list", {"complaints": found})
    return record


def refuse(complaint: str) -> Any:
    """Raise the error of a validator. Returns nothing, so that it can end a conditional expression."""
    raise ValueError(complaint)


def _email(text: str) -> str:
    return text if is_address(text) else refuse("must be an e-mail address")


Email = Annotated[str, Field(max_length=254, json_schema_extra={"format": "email"}), AfterValidator(_email)]
"""An e-mail address as entered. Domains convert it to lower case."""


def _time_zone(name: str) -> str:
    return name if is_time_zone(name) else refuse("must be the name of an IANA time zone, such as Europe/Prague")


TimeZone = Annotated[str, Field(max_length=64), AfterValidator(_time_zone)]
"""The name of a time zone."""


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    return value if json_size(value) <= _MAX_METADATA else refuse(f"must have at most {_MAX_METADATA} bytes as JSON")


Metadata = Annotated[dict[str, Any], AfterValidator(_bounded)]
"""Free-form notes of users about a record. Limited in size, because a page of a list holds a hundred of them."""


def read(model: type[Model], value: Any) -> Model:
    """Return the model of a decoded JSON value. Raises ValidationFailed with every mistake."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_MISTAKES:
            raise ValidationFailed(details=[f"body: has {count} mistakes, which are too many to list"]) from None
        raise ValidationFailed(details=complaints_of(error, model)) from None


def read_query(model: type[Model], pairs: list[tuple[str, str]]) -> Model:
    """Return the model of the pairs of a query string. Raises ValidationFailed with every mistake."""
    root = schema_of(model)
    values: dict[str, Any] = {}
    twice: list[str] = []
    for name, text in pairs:
        schema = without_null(root["properties"].get(name, {}), root)
        if schema.get("type") == "array":
            values.setdefault(name, []).append(_from_text(text, schema["items"]))
        elif name in values:
            twice.append(f"{below('', name)}: must not be given twice")
        else:
            values[name] = _from_text(text, schema)
    try:
        record = read(model, values)
    except ValidationFailed as error:
        raise ValidationFailed(details=(twice + error.details)[:MAX_COMPLAINTS]) from None
    if twice:
        raise ValidationFailed(details=twice[:MAX_COMPLAINTS])
    return record


def _from_text(text: str, schema: dict[str, Any]) -> Any:
    match schema.get("type"):
        case "integer":
            return int(text) if _INTEGER.match(text) else text
        case "number":
            return float(text) if _NUMBER.match(text) else text
        case "boolean":
            return {"true": True, "false": False}.get(text, text)
    return text


def _strict(schema: Any, resolve: Callable[[Any], Any]) -> Any:
    """Return a field's schema with every leaf made strict. `resolve` returns the schema that a reference leads to."""
    kind = resolve(schema)["type"]
    if kind in _LEAVES:
        leaf = _LEAVES[kind] if schema.get("strip_whitespace", True) else _untrimmed
        return no_info_before_validator_function(leaf, schema if kind in ("enum", "literal") else {**schema, "strict": True})
    if kind == "dict":
        if schema.get("values_schema", {"type": "any"})["type"] == "any":
            return no_info_after_validator_function(_free_form, schema)
        keys, values = _strict(schema["keys_schema"], resolve), _strict(schema["values_schema"], resolve)
        return {**schema, "keys_schema": keys, "values_schema": values}
    if kind == "list":
        return _measured({**schema, "items_schema": _strict(schema["items_schema"], resolve)})
    if kind == "tuple":
        return _measured({**schema, "items_schema": [_strict(item, resolve) for item in schema["items_schema"]]})
    return {**schema, "schema": _strict(schema["schema"], resolve)} if "schema" in schema else schema


def _measured(schema: Any) -> Any:
    """Return the schema of an array whose length is checked before its items, which may be many."""
    low, high = schema.get("min_length", 0), schema.get("max_length")

    def check(value: Any) -> Any:
        if isinstance(value, list) and len(value) < low:
            raise PydanticCustomError("too_short", "too few items")
        if isinstance(value, list) and high is not None and len(value) > high:
            raise PydanticCustomError("too_long", "too many items")
        if isinstance(value, list) and len(value) > _MOST_ITEMS:
            raise PydanticCustomError("complaints", "", {"complaints": [f": must have at most {_MOST_ITEMS} items"]})
        return value

    return no_info_before_validator_function(check, schema)


def _text(value: Any) -> Any:
    return _untrimmed(value.strip()) if isinstance(value, str) else value


def _untrimmed(value: Any) -> Any:
    if isinstance(value, str) and _CONTROL.search(value):
        refuse("must not contain control characters")
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one number type: 5.0 is the integer 5
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        raise PydanticCustomError("too_far", "too far from zero")
    return value


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    except OverflowError:
        return math.inf


def _uuid(value: Any) -> Any:
    found = parse_uuid(value.strip()) if isinstance(value, str) else None
    return value if found is None else found


def _date_time(value: Any) -> Any:
    if isinstance(value, str) and _DATE_TIME.match(text := value.strip()):
        try:
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # refused by the type: not a calendar date, or out of range in UTC
    return value


def _choice(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


_LEAVES: Final[dict[str, Callable[[Any], Any]]] = {
    "str": _text,
    "int": _integer,
    "float": _number,
    "bool": lambda value: value,
    "uuid": _uuid,
    "datetime": _date_time,
    "enum": _choice,
    "literal": _choice,
}


def _free_form(value: dict[str, Any]) -> dict[str, Any]:
    """Return free-form JSON unchanged. Refuse values that PostgreSQL or other JSON readers cannot represent, and too many.

    They are counted first: each that is examined takes a microsecond or two of the event loop.
    """
    if _has_more_values(value, _MOST_VALUES):
        raise PydanticCustomError("complaints", "", {"complaints": [f": must have at most {_MOST_VALUES} values"]})
    found: list[str] = []
    _check_free(value, "", found, 0)
    if found:
        raise PydanticCustomError("complaints", "see the list", {"complaints": found})
    return value


def _has_more_values(value: dict[str, Any], most: int) -> bool:
    counted = 0
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            counted += len(one)
            if counted > most:
                return True
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return False


def _check_free(value: Any, path: str, found: list[str], depth: int) -> None:
    complaint = None
    if isinstance(value, str) and _CONTROL_BUT_LINES.search(value):
        complaint = "must not contain control characters"
    elif isinstance(value, float) and not math.isfinite(value):
        complaint = "must be a number in the range of a double"
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        complaint = f"must be an integer of at most {SAFE_INTEGER} from zero"
    elif isinstance(value, dict | list) and depth >= MAX_DEPTH:
        complaint = f"must not be nested deeper than {MAX_DEPTH} levels"
    if complaint is not None and len(found) < MAX_COMPLAINTS:
        found.append(f"{path}: {complaint}")
    if complaint is None and isinstance(value, dict | list):
        for name, element in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(name, str) and _CONTROL.search(name) and len(found) < MAX_COMPLAINTS:
                found.append(f"{path}: must not have control characters in a field name")
            _check_free(element, below(path, name), found, depth + 1)
