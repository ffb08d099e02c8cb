"""Decode a device's fields to metrics, by the signals of its template.

A `SignalMap` is compiled once per template version and used for every entry. The common case, all fields present and finite,
uses only C-level calls. Any other entry is decoded value by value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import itemgetter
from typing import Any, Final

from msgspec import UNSET

from gridfleet.domains.device_templates.models import Signal, SignalKind

__all__ = ["DEFAULT_WORD", "Metric", "SignalMap"]

DEFAULT_WORD: Final = "status"
MAX_WORD_BITS: Final = 64

FieldValues = Mapping[str, int | float | bool | None]
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a stored value. A value outside `minimum`…`maximum` is stored and flagged; None is unbounded."""

    key: str
    unit: str
    counter: bool = False
    minimum: float | None = None
    maximum: float | None = None


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
                )
                for signal, _ in numeric
            ]
            + [Metric(signal.key, "") for signal in binary]
        )
        self._fields = tuple(field for _, field in numeric)
        self._factors = tuple(
            (1.0 if signal.scale is UNSET else signal.scale, 0.0 if signal.offset is UNSET else signal.offset)
            for signal, _ in numeric
        )
        self._scaled = any(factor != (1.0, 0.0) for factor in self._factors)
        self._bits = tuple((signal.word or DEFAULT_WORD, signal.bit or 0, bool(signal.invert)) for signal in binary)
        self._declared = frozenset(self._fields) | {word for word, _, _ in self._bits}
        self._numeric: Any = itemgetter(*self._fields) if len(self._fields) > 1 else None

    def decode(self, fields: FieldValues) -> Values | None:
        """Return the values of `metrics`, each None if the entry has none; None if the entry has no declared field."""
        values: list[Any]  # None is handled only in `_careful`
        try:
            values = list(self._numeric(fields)) if self._numeric else [fields[name] for name in self._fields]
            if self._scaled:
                values = [raw * scale + offset for raw, (scale, offset) in zip(values, self._factors, strict=True)]
            # Sum of floats: an integer too large for a double raises OverflowError, whereas integers could cancel each
            # other.
            if not isfinite(sum(values, 0.0)):
                values = self._careful(fields)
        except (KeyError, TypeError, OverflowError):
            if self._declared.isdisjoint(fields):
                return None
            values = self._careful(fields)
        if self._bits:
            values += [self._bit(fields.get(word), bit, invert) for word, bit, invert in self._bits]
        return values

    @property
    def declared_count(self) -> int:
        """The number of fields that the signals declare."""
        return len(self._declared)

    def undeclared(self, fields: FieldValues) -> int:
        """Return the number of the entry's fields that no signal declares; they are dropped."""
        return len(fields.keys() - self._declared)

    def _careful(self, fields: FieldValues) -> list[float | None]:
        values: list[float | None] = []
        for name, (scale, offset) in zip(self._fields, self._factors, strict=True):
            raw = fields.get(name)
            try:
                value = None if raw is None else float(raw) * scale + offset
            except OverflowError:
                value = None
            values.append(value if value is not None and isfinite(value) else None)
        return values

    @staticmethod
    def _bit(word: int | float | bool | None, bit: int, invert: bool) -> float | None:
        if word is None or isinstance(word, bool) or word < 0:
            return None
        if isinstance(word, float):
            # A whole float is converted; a float with a fraction has no bits.
            if not word.is_integer():
                return None
            word = int(word)
        if word >> MAX_WORD_BITS:
            return None
        return float((word >> bit & 1) ^ invert)
