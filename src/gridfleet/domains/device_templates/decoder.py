"""Decode a device's fields to metrics, by the signals of its template.

A `SignalMap` is compiled once per template version and used for every entry. The common case, all fields present and finite,
uses only C-level calls. Any other entry is decoded value by value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import add, itemgetter, mul, truediv
from typing import Any, Final

from msgspec import UNSET

from gridfleet.domains.device_templates.models import Signal, SignalKind, SignalRole
from gridfleet.domains.device_templates.roles import ENERGY_KEYS, units_of
from gridfleet.protocol.envelope import FieldValue
from gridfleet.protocol.scaling import Scaling

__all__ = ["DEFAULT_WORD", "FieldValues", "Metric", "SignalMap", "own_metric", "scaling_of"]

DEFAULT_WORD: Final = "status"
MAX_WORD_BITS: Final = 64

FieldValues = Mapping[str, FieldValue]
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a stored value. A value outside `minimum`…`maximum` is stored and flagged; None is unbounded.

    `scaling` says how a metric is decoded that is an energy counter or becomes one by a role alone, as `scaling_of` returns it;
    None for others, and if it is not known.
    """

    key: str
    unit: str
    counter: bool = False
    minimum: float | None = None
    maximum: float | None = None
    scaling: str | None = None


def scaling_of(field: str, scale: float = 1.0, offset: float = 0.0) -> str:
    """Return field, scale and offset as one text, separated by blanks."""
    return f"{field} {float(scale)!r} {float(offset)!r}"


def own_metric(name: str) -> Metric:
    """Return the metric of a device without a template, which sends values under this name as they are stored."""
    return Metric(name, "", scaling=scaling_of(name))


class SignalMap:
    """The compiled signals of one template version.

    `metrics` describes the values that `decode` returns, in its order: numeric signals first, then binary ones.
    """

    def __init__(self, signals: Sequence[Signal]) -> None:
        numeric = [(signal, signal.field) for signal in signals if signal.field is not UNSET]
        binary = [signal for signal in signals if signal.field is UNSET]
        self.metrics = tuple(
            [
                Metric(
                    signal.key,
                    signal.unit or "",
                    signal.kind is SignalKind.COUNTER,
                    None if signal.min is UNSET else signal.min,
                    None if signal.max is UNSET else signal.max,
                    scaling_of(field, *_scale_and_offset(signal)) if _may_count_energy(signal) else None,
                )
                for signal, field in numeric
            ]
            + [Metric(signal.key, "") for signal in binary]
        )
        self._fields = tuple(field for _, field in numeric)
        self._scalings = tuple(Scaling.of(*_scale_and_offset(signal)) for signal, _ in numeric)
        self._scaled = any(scaling != Scaling() for scaling in self._scalings)
        self._scaling_columns = tuple(zip(*self._scalings, strict=True))
        self._positions: dict[str, list[int]] = {}
        for position, field in enumerate(self._fields):
            self._positions.setdefault(field, []).append(position)
        self._bit_count = len(binary)
        self._words: dict[str, list[tuple[int, int, bool]]] = {}
        for position, signal in enumerate(binary):
            bit = (position, signal.bit or 0, bool(signal.invert))
            self._words.setdefault(signal.word or DEFAULT_WORD, []).append(bit)
        self._declared = frozenset(self._fields).union(self._words)
        self._numeric: Any = itemgetter(*self._fields) if len(self._fields) > 1 else None

    def decode(self, fields: FieldValues) -> Values | None:
        """Return the values of `metrics`, each None if the entry has none; None if the entry has no declared field."""
        values: list[Any]  # None is handled only in `_careful`
        try:
            values = list(self._numeric(fields)) if self._numeric else [fields[name] for name in self._fields]
            if self._scaled:
                factors, added, divisors = self._scaling_columns
                values = list(map(truediv, map(add, map(mul, values, factors), added), divisors))
            # Sum of floats: an integer too large for a double raises OverflowError, whereas integers could cancel each
            # other.
            if not isfinite(sum(values, 0.0)):
                values = self._careful(fields)
        except (KeyError, TypeError, OverflowError):
            if self._declared.isdisjoint(fields):
                return None
            values = self._careful(fields)
        if self._bit_count:
            values += self._bits(fields)
        return values

    @property
    def declared_count(self) -> int:
        """The number of fields that the signals declare."""
        return len(self._declared)

    def undeclared(self, fields: FieldValues) -> int:
        """Return the number of the entry's fields that no signal declares; they are dropped."""
        return 0 if self._declared.issuperset(fields) else len(fields) - sum(map(self._declared.__contains__, fields))

    def _careful(self, fields: FieldValues) -> list[float | None]:
        # By the entry's fields: it may have one of thousands, thousands of times in one message.
        values: list[float | None] = [None] * len(self._fields)
        for name, raw in fields.items():
            if raw is None:
                continue
            for position in self._positions.get(name, ()):
                try:
                    value = self._scalings[position].value(float(raw))
                except OverflowError:
                    continue
                if isfinite(value):
                    values[position] = value
        return values

    def _bits(self, fields: FieldValues) -> list[float | None]:
        values: list[float | None] = [None] * self._bit_count
        for name, bits in self._words.items():
            word = _word(fields.get(name))
            if word is not None:
                for position, bit, invert in bits:
                    values[position] = float((word >> bit & 1) ^ invert)
        return values


def _scale_and_offset(signal: Signal) -> tuple[float, float]:
    return 1.0 if signal.scale is UNSET else signal.scale, 0.0 if signal.offset is UNSET else signal.offset


def _may_count_energy(signal: Signal) -> bool:
    is_counter = signal.kind is SignalKind.COUNTER or signal.key in ENERGY_KEYS
    return is_counter or not signal.unit or signal.unit in units_of(SignalRole.ENERGY_PRODUCED)


def _word(value: int | float | bool | None) -> int | None:
    """Return the word of a value; None if it is not a whole number from 0 to 2^64 - 1."""
    if value is None or isinstance(value, bool) or value < 0:
        return None
    if isinstance(value, float):
        if not value.is_integer():
            return None
        value = int(value)
    return None if value >> MAX_WORD_BITS else value
