"""Check a command's parameters against the action that the template declares."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gridfleet.domains.device_templates.models import Action, ActionParameter, DeviceTemplate, ParameterType
from gridfleet.kernel.numbers import compared

__all__ = ["find_action", "parameter_complaints"]

_EXACT: Final = 2**53 - 1
"""Many JSON parsers round larger integers."""


def find_action(template: DeviceTemplate, name: str) -> Action | None:
    """Return the template's action with that name; None if there is none."""
    for action in template.actions:
        if action.get("action") == name:
            return msgspec.convert(action, Action)
    return None


def parameter_complaints(action: Action, params: Mapping[str, Any]) -> Iterator[str]:
    """Yield every error, as `params.power_kw: what is wrong`."""
    declared = {parameter.name: parameter for parameter in action.params}
    for name, value in params.items():
        parameter = declared.get(name)
        complaint = f"is no parameter of {action.action}" if parameter is None else _complaint(parameter, value)
        if complaint is not None:
            yield f"params.{name[:64]}: {complaint}"
    for name, parameter in declared.items():
        if parameter.required and name not in params:
            yield f"params.{name}: is required"


def _complaint(parameter: ActionParameter, value: Any) -> str | None:
    match parameter.type:
        case ParameterType.BOOLEAN:
            return None if isinstance(value, bool) else "must be true or false"
        case ParameterType.STRING:
            return _text_complaint(parameter, value)
        case ParameterType.ENUM:
            values = parameter.enum or []
            return None if isinstance(value, str) and value in values else f"must be one of {', '.join(values)}"
    return _number_complaint(parameter, value)


def _text_complaint(parameter: ActionParameter, value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a string"
    if parameter.max_length is not UNSET and len(value) > parameter.max_length:
        return f"must have at most {parameter.max_length} characters"
    return None


def _number_complaint(parameter: ActionParameter, value: Any) -> str | None:
    if parameter.type is ParameterType.INTEGER:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number"
    elif not isinstance(value, int | float) or isinstance(value, bool) or not (isinstance(value, int) or math.isfinite(value)):
        return "must be a number"
    if isinstance(value, int) and abs(value) > _EXACT:
        return f"must be between -{_EXACT} and {_EXACT}"
    if parameter.min is not UNSET and value < parameter.min:
        return f"must be at least {compared(parameter.min, value)[0]}{_unit(parameter)}"
    if parameter.max is not UNSET and value > parameter.max:
        return f"must be at most {compared(parameter.max, value)[0]}{_unit(parameter)}"
    return None


def _unit(parameter: ActionParameter) -> str:
    return "" if parameter.unit is UNSET else f" {parameter.unit}"
