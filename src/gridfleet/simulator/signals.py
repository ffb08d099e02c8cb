"""Conversion of device values to the fields to send: the inverse of a template's signals."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from gridfleet.protocol.scaling import Scaling
from gridfleet.simulator.measurements import Values

__all__ = ["Encoded", "Signal", "SignalWriter"]

_RAW_DECIMALS: Final = 6


class Signal(msgspec.Struct, frozen=True):
    """A signal of a template as the REST API returns it: numeric with `field`, or binary with `bit`."""

    key: str
    field: str | None = None
    bit: int | None = None
    word: str | None = None
    scale: float | None = None
    offset: float | None = None
    invert: bool | None = None


class Encoded(NamedTuple):
    """Fields to send, and the decoded values that the service must return, by key."""

    fields: dict[str, int | float | bool | None]
    expected: dict[str, float]


class SignalWriter:
    """Converter of a device's values to the fields that its template reads."""

    def __init__(self, signals: Sequence[Signal]) -> None:
        self._signals = signals
        self._scalings = {
            signal.key: Scaling.of(1.0 if signal.scale is None else signal.scale, signal.offset or 0.0) for signal in signals
        }

    def encode(self, values: Values) -> Encoded:
        """Return the fields of those signals that have a value. Other fields are omitted; bits without a value are 0."""
        fields: dict[str, int | float | bool | None] = {}
        expected: dict[str, float] = {}
        for signal in self._signals:
            if signal.field is not None and signal.key in values:
                scale = 1.0 if signal.scale is None else signal.scale
                offset = signal.offset or 0.0
                value = float(values[signal.key])
                raw = value if (scale, offset) == (1.0, 0.0) else round((value - offset) / scale, _RAW_DECIMALS)
                fields[signal.field] = raw
                expected[signal.key] = self._scalings[signal.key].value(raw)
            elif signal.bit is not None:
                word = signal.word or "status"
                on = bool(values.get(signal.key, False))
                fields[word] = int(fields.get(word) or 0) | (on is not bool(signal.invert)) << signal.bit
                expected[signal.key] = float(on)
        return Encoded(fields, expected)
