"""Validate signals and actions beyond the types of their members (protocols: Templates)."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from gridfleet.domains.device_templates.models import Action, ActionParameter, ParameterType, Signal, SignalKind, SignalRole
from gridfleet.domains.device_templates.roles import is_counter, units_of

__all__ = ["MAX_SIGNALS", "action_complaints", "signal_complaints"]

MAX_SIGNALS = 2_000
_NUMERIC_ONLY = ("unit", "scale", "offset", "min", "max", "kind", "role", "symbols")
_BINARY_ONLY = ("word", "severity", "invert")


def signal_complaints(signals: Sequence[Signal]) -> Iterator[str]:
    """Yield every error, as `signals.0.bit: what is wrong`."""
    if len(signals) > MAX_SIGNALS:
        yield f"signals: must have at most {MAX_SIGNALS} items"
    seen: dict[str, int] = {}
    for index, signal in enumerate(signals):
        path = f"signals.{index}"
        if signal.key in seen:
            yield f"{path}.key: must be unique, {signal.key!r} is also signal {seen[signal.key]}"
        seen.setdefault(signal.key, index)
        numeric, binary = signal.field is not UNSET, signal.bit is not UNSET
        if numeric == binary:
            yield f"{path}: must have exactly one of field (numeric) and bit (binary)"
            continue
        for name in _BINARY_ONLY if numeric else _NUMERIC_ONLY:
            if getattr(signal, name) is not UNSET:
                yield f"{path}.{name}: only for a {'binary' if numeric else 'numeric'} signal"
        if signal.scale == 0:
            yield f"{path}.scale: must not be 0"
        if signal.min is not UNSET and signal.max is not UNSET and signal.min > signal.max:
            yield f"{path}.min: must not exceed max"
        if signal.symbols is not UNSET:
            for name in signal.symbols:
                if not name.lstrip("-").isdecimal():
                    yield f"{path}.symbols.{name}: must be named by a whole number"
        if signal.role is not UNSET:
            yield from _role_complaints(path, signal, signal.role)


def _role_complaints(path: str, signal: Signal, role: SignalRole) -> Iterator[str]:
    units = units_of(role)
    if signal.unit and signal.unit not in units:
        yield f"{path}.role: {role} needs the unit {' or '.join(units)}"
    if signal.kind is not UNSET and (signal.kind is SignalKind.COUNTER) != is_counter(role):
        yield f"{path}.role: {role} needs the kind {SignalKind.COUNTER if is_counter(role) else SignalKind.GAUGE}"


def action_complaints(actions: Sequence[Action]) -> Iterator[str]:
    """Yield every error, as `actions.0.params.1.enum: what is wrong`."""
    seen: dict[str, int] = {}
    for index, action in enumerate(actions):
        path = f"actions.{index}"
        if action.action in seen:
            yield f"{path}.action: must be unique, {action.action!r} is also action {seen[action.action]}"
        seen.setdefault(action.action, index)
        names: set[str] = set()
        for position, parameter in enumerate(action.params):
            where = f"{path}.params.{position}"
            if parameter.name in names:
                yield f"{where}.name: must be unique within the action"
            names.add(parameter.name)
            yield from _parameter_complaints(where, parameter)


def _parameter_complaints(path: str, parameter: ActionParameter) -> Iterator[str]:
    numeric = parameter.type in (ParameterType.NUMBER, ParameterType.INTEGER)
    for name in ("min", "max", "unit"):
        if getattr(parameter, name) is not UNSET and not numeric:
            yield f"{path}.{name}: only for type number or integer"
    if parameter.min is not UNSET and parameter.max is not UNSET and parameter.min > parameter.max:
        yield f"{path}.min: must not exceed max"
    if parameter.max_length is not UNSET and parameter.type is not ParameterType.STRING:
        yield f"{path}.maxLength: only for type string"
    if (parameter.type is ParameterType.ENUM) != (parameter.enum is not UNSET):
        yield f"{path}.enum: is required for type enum, and not allowed for others"
    if parameter.enum is not UNSET and len(set(parameter.enum)) != len(parameter.enum):
        yield f"{path}.enum: values must be unique"
