"""Strict reading of the fields of bodies and queries.

Texts are trimmed and have no control characters, ids and times have one form, 5.0 is the integer 5 and "5" is not, and
free-form values hold only what every JSON reader and PostgreSQL can represent.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function, no_info_before_validator_function

from gridfleet.api.http.complaints import MAX_COMPLAINTS, SAFE_INTEGER, below, refuse
from gridfleet.kernel.ids import CONTROL, parse_uuid

__all__ = ["MAX_DEPTH", "strict"]

MAX_DEPTH: Final = 32
"""Levels of nesting inside a free-form value."""


_MOST_ITEMS: Final = 30_000
"""Items of an array without a limit of its own. A body of 1 MiB has room for 27,000 ids, but for 524,000 short items."""
_MOST_VALUES: Final = 16 * 1024
"""Values of a free-form value: as many as 32 KiB of metadata have room for. A body of 1 MiB has room for 524,000."""

_CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)\Z")


def strict(schema: Any, resolve: Callable[[Any], Any]) -> Any:
    """Return a field's schema with every leaf made strict. `resolve` returns the schema that a reference leads to."""
    kind = resolve(schema)["type"]
    if kind in _LEAVES:
        leaf = _LEAVES[kind] if schema.get("strip_whitespace", True) else _untrimmed
        return no_info_before_validator_function(leaf, schema if kind in ("enum", "literal") else {**schema, "strict": True})
    if kind == "dict":
        if schema.get("values_schema", {"type": "any"})["type"] == "any":
            return no_info_after_validator_function(_free_form, schema)
        keys, values = strict(schema["keys_schema"], resolve), strict(schema["values_schema"], resolve)
        return {**schema, "keys_schema": keys, "values_schema": values}
    if kind == "list":
        return _measured({**schema, "items_schema": strict(schema["items_schema"], resolve)})
    if kind == "tuple":
        return _measured({**schema, "items_schema": [strict(item, resolve) for item in schema["items_schema"]]})
    return {**schema, "schema": strict(schema["schema"], resolve)} if "schema" in schema else schema


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
    if isinstance(value, str) and CONTROL.search(value):
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
            if isinstance(name, str) and CONTROL.search(name) and len(found) < MAX_COMPLAINTS:
                found.append(f"{path}: must not have control characters in a field name")
            _check_free(element, below(path, name), found, depth + 1)
