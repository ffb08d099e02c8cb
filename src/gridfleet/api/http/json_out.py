"""JSON encoding of records, with times as RFC 3339 in UTC with milliseconds and `Z`.

msgspec prints microseconds and has no hook for datetimes. A writer is built once for each type. It converts only the structs
that contain a time to plain dicts and leaves everything else to msgspec.
"""

from collections.abc import Callable
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect

from gridfleet.protocol.envelope import format_time

__all__ = ["build_writer"]

_encode = msgspec.json.Encoder().encode
_WITH_MICROSECONDS = len(b'"2026-01-31T12:00:00.123456Z"')
_WITH_SECONDS = len(b'"2026-01-31T12:00:00Z"')

Plan = Callable[[Any], Any]


def build_writer(annotation: Any) -> Callable[[Any], bytes]:
    """Return a function that encodes a value of the type as JSON."""
    plan = _plan(inspect.type_info(annotation), {})
    if plan is None:
        return _encode
    prepare: Plan = plan
    return lambda value: _encode(prepare(value))


def _plan(info: inspect.Type, seen: dict[Any, list[Plan]]) -> Plan | None:
    """Return a function that prepares a value of the type for msgspec, or None if no preparation is needed."""
    match info:
        case inspect.Metadata(type=inner):
            return _plan(inner, seen)
        case inspect.DateTimeType():
            return _time
        case inspect.UnionType(types=types):
            return _union_plan(types, seen)
        case inspect.StructType():
            return _struct_plan(info, seen)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return _each(_plan(item, seen))
        case inspect.DictType(value_type=item):
            return _each_value(_plan(item, seen))
    return None


def _each(plan: Plan | None) -> Plan | None:
    return None if plan is None else lambda values: [plan(value) for value in values]


def _each_value(plan: Plan | None) -> Plan | None:
    return None if plan is None else lambda values: {name: plan(value) for name, value in values.items()}


def _union_plan(types: tuple[inspect.Type, ...], seen: dict[Any, list[Plan]]) -> Plan | None:
    plans = [(option, plan) for option in types if (plan := _plan(option, seen)) is not None]
    if not plans:
        return None
    if len(plans) == 1 and len(types) == 2 and any(isinstance(option, inspect.NoneType) for option in types):
        only = plans[0][1]
        return lambda value: None if value is None else only(value)
    by_class: dict[type, Plan] = {}
    for option, plan in plans:
        if not isinstance(option, inspect.StructType):
            raise TypeError(f"a union with {option} that holds a time cannot be written")
        by_class[option.cls] = plan

    def prepare(value: Any) -> Any:
        plan = by_class.get(type(value))
        return value if plan is None else plan(value)

    return prepare


def _struct_plan(info: inspect.StructType, seen: dict[Any, list[Plan]]) -> Plan | None:
    if info.cls in seen:
        later = seen[info.cls]
        return lambda value: later[0](value) if later else value
    place = seen[info.cls] = []
    names = [field.encode_name for field in info.fields]
    plans = [(field.encode_name, plan) for field in info.fields if (plan := _plan(field.type, seen)) is not None]
    if not plans:
        return None
    tag = {info.tag_field: info.tag} if info.tag_field else {}
    optional = [field.encode_name for field in info.fields if _may_be_unset(field)]
    values_of = _getter([field.name for field in info.fields])

    def prepare(record: Any) -> dict[str, Any]:
        plain: dict[str, Any] = dict(zip(names, values_of(record), strict=True))
        for name in optional:
            if plain[name] is msgspec.UNSET:
                del plain[name]
        for name, plan in plans:
            value = plain.get(name)
            if value is not None:
                plain[name] = plan(value)
        return {**tag, **plain} if tag else plain

    place.append(prepare)
    return prepare


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) == 1:
        only = names[0]
        return lambda record: (getattr(record, only),)
    return attrgetter(*names)


def _may_be_unset(field: inspect.Field) -> bool:
    return not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def _time(value: datetime) -> msgspec.Raw:
    # msgspec prints a time about thirty times faster than `isoformat`, so its text is cut to milliseconds.
    text = _encode(value)
    if text.endswith(b'Z"'):
        if len(text) == _WITH_MICROSECONDS:
            return msgspec.Raw(text[:24] + b'Z"')
        if len(text) == _WITH_SECONDS:
            return msgspec.Raw(text[:20] + b'.000Z"')
    return msgspec.Raw(_encode(format_time(value)))
