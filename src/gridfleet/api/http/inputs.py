"""Validation of input against msgspec types. Every mistake is listed as `path.to.field: what is wrong`.

msgspec stops at the first mistake, but users who fix a form or an import need all of them. A checker is built once for each
type. It then walks decoded JSON (or query text) without inspecting the type again.

Annotations in `msgspec.Meta(extra={…})`, beside msgspec's own constraints:
`trim: False` keeps surrounding spaces (passwords). `format: "email"` requires an e-mail address. `rule: "must …"` is the
error text for a pattern. `null: False` refuses null where None means that the field was omitted. `max_bytes` limits a
free-form object as JSON.
A struct may define `complaints(self) -> Iterator[str]` for rules across fields; it runs when all fields are valid.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import inspect

from gridfleet.domains.identity.emails import is_address
from gridfleet.kernel.ids import parse_uuid

__all__ = ["MAX_COMPLAINTS", "MAX_DEPTH", "Checker", "InvalidInput", "build_checker", "storable", "text_reader"]

MAX_COMPLAINTS: Final = 1_000
MAX_DEPTH: Final = 32
"""Levels of nesting inside a free-form value."""

_SAFE_INTEGER: Final = 2**53 - 1  # beyond it JSON readers disagree, and no column is wider

Checker = Callable[[Any, str, list[str]], Any]
"""Returns the typed value, or appends to the complaints and returns `WRONG`."""

Seen = dict[Any, list[Checker]]
"""Checkers of structs by class, which allows recursive structs."""


class _Wrong:
    """The type of `WRONG`, which no input can produce."""


WRONG: Final = _Wrong()

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)\Z")
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?\Z")


class InvalidInput(Exception):
    """The input is invalid. `complaints` lists every mistake."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(f"{len(complaints)} complaints")
        self.complaints = complaints


def build_checker(annotation: Any) -> Checker:
    """Return the checker of a type."""
    return _build(inspect.type_info(annotation), {})


def _build(info: inspect.Type, seen: Seen, trim: bool = True, extra: dict[str, Any] | None = None) -> Checker:
    match info:
        case inspect.Metadata(type=inner, extra=more):
            merged = {**(extra or {}), **(more or {})}
            return _build(inner, seen, merged.get("trim", True) is not False, merged)
        case inspect.UnionType(types=types):
            return _union(types, seen, trim, extra)
        case inspect.StructType():
            return _struct(info, seen)
        case inspect.StrType():
            return _string(info, trim, extra or {})
        case inspect.IntType():
            return _integer(info)
        case inspect.FloatType():
            return _number(info)
        case inspect.BoolType():
            return _boolean
        case inspect.UUIDType():
            return _uuid
        case inspect.DateTimeType():
            return _date_time
        case inspect.EnumType(cls=cls):
            return _choice({member.value: member for member in cls})
        case inspect.LiteralType(values=values):
            return _choice({value: value for value in values})
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return _array(info, seen)
        case inspect.DictType(key_type=key, value_type=value, min_length=low, max_length=high):
            if isinstance(value, inspect.AnyType):
                return _free_object((extra or {}).get("max_bytes"))
            return _object(_build(key, seen), _build(value, seen), low, high)
        case inspect.AnyType():
            return _free
        case inspect.NoneType():
            return _null
        case inspect.BytesType():
            return _as_it_is
    raise TypeError(f"no checker for {info}")


def _say(complaints: list[str], path: str, text: str) -> _Wrong:
    if len(complaints) < MAX_COMPLAINTS:
        complaints.append(f"{path or 'body'}: {text}")
    return WRONG


def _below(path: str, name: str | int) -> str:
    text = name if isinstance(name, int) or len(name) <= 64 else f"{name[:64]}…"
    return f"{path}.{text}" if path else str(text)


def _as_it_is(value: Any, path: str, complaints: list[str]) -> Any:
    return value


def _null(value: Any, path: str, complaints: list[str]) -> Any:
    return None if value is None else _say(complaints, path, "must be null")


def _boolean(value: Any, path: str, complaints: list[str]) -> Any:
    return value if isinstance(value, bool) else _say(complaints, path, _or_null(value, "must be true or false"))


def _or_null(value: Any, text: str) -> str:
    return "must not be null" if value is None else text


def _string(info: inspect.StrType, trim: bool, extra: dict[str, Any]) -> Checker:
    low, high = info.min_length or 0, info.max_length
    if high is None:
        length_rule = f"must have at least {low} character{'s' if low != 1 else ''}"
    elif low == high:
        length_rule = f"must have exactly {low} characters"
    elif low:
        length_rule = f"must have {low} to {high} characters"
    else:
        length_rule = f"must have at most {high} characters"
    pattern = re.compile(info.pattern) if info.pattern else None
    pattern_rule = str(extra.get("rule", f"must match {info.pattern}"))
    is_email = extra.get("format") == "email"

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, str):
            return _say(complaints, path, _or_null(value, "must be a string"))
        text = value.strip() if trim else value
        if _CONTROL.search(text):
            return _say(complaints, path, "must not contain control characters")
        if len(text) < low or (high is not None and len(text) > high):
            return _say(complaints, path, length_rule)
        if pattern is not None and not pattern.search(text):
            return _say(complaints, path, pattern_rule)
        if is_email and not is_address(text):
            return _say(complaints, path, "must be an e-mail address")
        return text

    return check


def _limits(low: float | None, above: float | None, high: float | None, below: float | None) -> str:
    parts = [f" {sign} {limit}" for sign, limit in ((">=", low), (">", above), ("<=", high), ("<", below)) if limit is not None]
    return " and".join(parts)


def _integer(info: inspect.IntType) -> Checker:
    rule = "must be an integer" + _limits(info.ge, info.gt, info.le, info.lt)
    low = max(-_SAFE_INTEGER if info.ge is None else info.ge, -_SAFE_INTEGER if info.gt is None else info.gt + 1)
    high = min(_SAFE_INTEGER if info.le is None else info.le, _SAFE_INTEGER if info.lt is None else info.lt - 1)
    step = info.multiple_of

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one number type: 5.0 is the integer 5
        if not isinstance(value, int) or isinstance(value, bool):
            return _say(complaints, path, _or_null(value, rule))
        if not low <= value <= high:
            too_far = "" if info.ge is not None and info.le is not None else f" (at most {_SAFE_INTEGER} from zero)"
            return _say(complaints, path, rule + (too_far if abs(value) > _SAFE_INTEGER else ""))
        if step is not None and value % step:
            return _say(complaints, path, f"must be a multiple of {step}")
        return value

    return check


def _number(info: inspect.FloatType) -> Checker:
    rule = "must be a number" + _limits(info.ge, info.gt, info.le, info.lt)
    ge, gt, le, lt = info.ge, info.gt, info.le, info.lt

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return _say(complaints, path, _or_null(value, rule))
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            return _say(complaints, path, "must be a number that a double can hold")
        if (
            (ge is not None and number < ge)
            or (gt is not None and number <= gt)
            or (le is not None and number > le)
            or (lt is not None and number >= lt)
        ):
            return _say(complaints, path, rule)
        return number

    return check


def _uuid(value: Any, path: str, complaints: list[str]) -> Any:
    found = parse_uuid(value.strip()) if isinstance(value, str) else None
    return found if found is not None else _say(complaints, path, _or_null(value, "must be a UUID"))


def storable(text: str) -> str:
    """Replace characters that PostgreSQL cannot store by U+FFFD, so that a look-up with the text finds nothing."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _date_time(value: Any, path: str, complaints: list[str]) -> Any:
    if isinstance(value, str) and _DATE_TIME.match(text := value.strip()):
        try:
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # reported below: not a calendar date, or out of range in UTC
    rule = "must be an ISO 8601 date-time with its zone, such as 2026-01-31T12:00:00Z"
    return _say(complaints, path, _or_null(value, rule))


def _choice(choices: dict[Any, Any]) -> Checker:
    rule = "must be one of " + ", ".join(str(choice) for choice in choices)

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if isinstance(value, str):
            value = value.strip()
        elif not isinstance(value, int) or isinstance(value, bool):
            return _say(complaints, path, _or_null(value, rule))
        if value not in choices:
            return _say(complaints, path, rule)
        return choices[value]

    return check


_CollectionType = inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType


def _array(info: _CollectionType, seen: Seen) -> Checker:
    item = _build(info.item_type, seen)
    make: Callable[[list[Any]], Any] = list
    if isinstance(info, inspect.SetType):
        make = set
    elif isinstance(info, inspect.FrozenSetType):
        make = frozenset
    elif isinstance(info, inspect.VarTupleType):
        make = tuple
    low, high = info.min_length or 0, info.max_length

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, list):
            return _say(complaints, path, _or_null(value, "must be an array"))
        if len(value) < low:
            return _say(complaints, path, f"must have at least {low} item{'s' if low != 1 else ''}")
        if high is not None and len(value) > high:
            return _say(complaints, path, f"must have at most {high} items")
        items = [item(element, _below(path, index), complaints) for index, element in enumerate(value)]
        return WRONG if any(element is WRONG for element in items) else make(items)

    return check


def _free_object(max_bytes: int | None) -> Checker:
    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, dict):
            return _say(complaints, path, _or_null(value, "must be an object"))
        kept = _free(value, path, complaints)
        # After a complaint the value may not be encodable.
        if max_bytes is not None and not complaints and len(msgspec.json.encode(kept)) > max_bytes:
            return _say(complaints, path, f"must have at most {max_bytes} bytes as JSON")
        return kept

    return check


def _object(key: Checker, value_of: Checker, low: int | None, high: int | None) -> Checker:
    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, dict):
            return _say(complaints, path, _or_null(value, "must be an object"))
        if low is not None and len(value) < low:
            return _say(complaints, path, f"must have at least {low} field{'s' if low != 1 else ''}")
        if high is not None and len(value) > high:
            return _say(complaints, path, f"must have at most {high} fields")
        pairs = [
            (key(name, _below(path, name), complaints), value_of(element, _below(path, name), complaints))
            for name, element in value.items()
        ]
        return WRONG if any(name is WRONG or element is WRONG for name, element in pairs) else dict(pairs)

    return check


def _free(value: Any, path: str, complaints: list[str], depth: int = 0) -> Any:
    """Return free-form JSON unchanged. Refuse only values that PostgreSQL or other JSON readers cannot represent."""
    if isinstance(value, str):
        if _CONTROL_BUT_LINES.search(value):
            return _say(complaints, path, "must not contain control characters")
    elif isinstance(value, float) and not math.isfinite(value):
        return _say(complaints, path, "must be a number that a double can hold")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE_INTEGER:
        return _say(complaints, path, f"must be an integer of at most {_SAFE_INTEGER} from zero")
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            return _say(complaints, path, f"must not be nested deeper than {MAX_DEPTH} levels")
        before = len(complaints)
        for name, element in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(name, str) and _CONTROL.search(name):
                _say(complaints, path, "must not have control characters in a field name")
            _free(element, _below(path, name), complaints, depth + 1)
        if len(complaints) > before:
            return WRONG
    return value


def _union(types: tuple[inspect.Type, ...], seen: Seen, trim: bool, extra: dict[str, Any] | None) -> Checker:
    nullable = any(isinstance(option, inspect.NoneType) for option in types) and (extra or {}).get("null", True)
    options = [option for option in types if not isinstance(option, inspect.NoneType)]
    if len(options) == 1:
        only = _build(options[0], seen, trim, extra)
        if not nullable:
            return only
        return lambda value, path, complaints: None if value is None else only(value, path, complaints)
    by_kind: dict[type, Checker] = {}
    for option in options:
        checker = _build(option, seen, trim, extra)
        for kind in _json_kinds(option):
            by_kind.setdefault(kind, checker)
    if int in by_kind and float in by_kind and any(isinstance(_plain(option), inspect.FloatType) for option in options):
        whole = next((o for o in options if isinstance(_plain(o), inspect.IntType)), None)
        by_kind[int] = _build(whole, seen) if whole is not None else by_kind[float]
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false", list: "an array", dict: "an object"}
    rule = "must be " + ", or ".join(names[kind] for kind in by_kind)

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if value is None and nullable:
            return None
        checker = by_kind.get(type(value))
        return checker(value, path, complaints) if checker else _say(complaints, path, _or_null(value, rule))

    return check


def _plain(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _json_kinds(info: inspect.Type) -> tuple[type, ...]:
    match _plain(info):
        case inspect.FloatType():
            return (float, int)
        case inspect.IntType():
            return (int,)
        case inspect.BoolType():
            return (bool,)
        case inspect.StructType() | inspect.DictType():
            return (dict,)
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return (list,)
        case _:
            return (str,)


def _struct(info: inspect.StructType, seen: Seen) -> Checker:
    if info.cls in seen:  # a recursive struct: its checker exists only after the outer call
        later = seen[info.cls]
        return lambda value, path, complaints: later[0](value, path, complaints)
    place = seen[info.cls] = []
    fields = {f.encode_name: (f.name, _build(f.type, seen), f.required) for f in info.fields}
    cls = info.cls
    extra_rules: Callable[[Any], Iterator[str]] | None = getattr(cls, "complaints", None)
    strict = not getattr(cls, "ignores_unknown", False)

    def check(value: Any, path: str, complaints: list[str]) -> Any:
        if not isinstance(value, dict):
            return _say(complaints, path, _or_null(value, "must be an object"))
        before = len(complaints)
        values: dict[str, Any] = {}
        for name, (attribute, checker, required) in fields.items():
            if name in value:
                values[attribute] = checker(value[name], _below(path, name), complaints)
            elif required:
                _say(complaints, _below(path, name), "is required")
        if strict and not value.keys() <= fields.keys():
            _complain_of_unknown(value.keys() - fields.keys(), fields, path, complaints)
        if len(complaints) > before:
            return WRONG
        record = cls(**values)
        if extra_rules is not None:
            for complaint in extra_rules(record):
                if len(complaints) < MAX_COMPLAINTS:
                    complaints.append(_below(path, "") + complaint if path else complaint)
            if len(complaints) > before:
                return WRONG
        return record

    place.append(check)
    return check


def _complain_of_unknown(names: set[str], fields: dict[str, Any], path: str, complaints: list[str]) -> None:
    for count, name in enumerate(sorted(names)):
        # Searching for similar names is slow, so only the first 20 unknown names get a hint.
        near = difflib.get_close_matches(name[:64], fields, n=1) if count < 20 else []
        _say(complaints, _below(path, name), "is not a known field" + (f" (did you mean {near[0]}?)" if near else ""))


def text_reader(annotation: Any) -> Callable[[list[tuple[str, str]]], Any]:
    """Return a function that reads the pairs of a query string into the struct `annotation`.

    The function raises InvalidInput with every mistake.
    """
    info = inspect.type_info(annotation)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"a query is a struct, not {annotation}")
    check = _build(info, {})
    converters = {field.encode_name: _text_converter(field.type) for field in info.fields}
    lists = {field.encode_name for field in info.fields if _json_kinds(field.type) == (list,)}

    def read(pairs: list[tuple[str, str]]) -> Any:
        complaints: list[str] = []
        values: dict[str, Any] = {}
        for name, text in pairs:
            value = converters[name](text) if name in converters else text
            if name in lists:
                values.setdefault(name, []).append(value)
            elif name in values:
                _say(complaints, _below("", name), "must not be given twice")
            else:
                values[name] = value
        record = check(values, "", complaints)
        if complaints:
            raise InvalidInput(complaints)
        return record

    return read


def _text_converter(info: inspect.Type) -> Callable[[str], Any]:
    plain = _plain(info)
    if isinstance(plain, inspect.UnionType):
        options = [option for option in plain.types if not isinstance(option, inspect.NoneType)]
        return _text_converter(options[0]) if len(options) == 1 else str
    match plain:
        case inspect.IntType():
            return lambda text: int(text) if _INTEGER.match(text) else text
        case inspect.FloatType():
            return lambda text: float(text) if _NUMBER.match(text) else text
        case inspect.BoolType():
            return lambda text: {"true": True, "false": False}.get(text, text)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return _text_converter(item)
        case inspect.EnumType(cls=cls) if all(isinstance(member.value, int) for member in cls):
            return lambda text: int(text) if _INTEGER.match(text) else text
    return str
