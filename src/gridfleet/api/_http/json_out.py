"""Records as JSON, with times as RFC 3339 in UTC with milliseconds and `Z`.

msgspec prints microseconds and has no hook for datetimes. A writer is built once for a type: it turns only the structs
that hold a time into plain dicts and leaves everything else to msgspec.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from gridfleet.protocol.envelope import format_time

__all__ = ["build_writer"]

_encode = msgspec.json.Encoder().encode

Plan = Callable[[Any], Any]


def build_writer(annotation: Any) -> Callable[[Any], bytes]:
    """What turns a value of the type into JSON."""
    plan = _plan(inspect.type_info(annotation), {})
    if plan is None:
        return _encode
    prepare: Plan = plan
    return lambda value: _encode(prepare(value))


def _plan(info: inspect.Type, seen: dict[Any, list[Plan]]) -> Plan | None:
    """How a value of the type is made ready; None when it is ready as it is."""
    match info:
        case inspect.Metadata(type=inner):
            return _plan(inner, seen)
        case inspect.DateTimeType():
            return format_time
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
    plans = [(field.name, field.encode_name, _plan(field.type, seen)) for field in info.fields]
    if all(plan is None for _, _, plan in plans):
        return None
    tag = {info.tag_field: info.tag} if info.tag_field else {}

    def prepare(record: Any) -> dict[str, Any]:
        plain: dict[str, Any] = dict(tag)
        for attribute, name, plan in plans:
            value = getattr(record, attribute)
            if value is not msgspec.UNSET:
                plain[name] = value if plan is None or value is None else plan(value)
        return plain

    place.append(prepare)
    return prepare
