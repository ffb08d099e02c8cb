"""Units of power and energy, and their conversion."""

from decimal import Decimal
from typing import Final

from gridfleet.domains.telemetry.energy.arithmetic import limited

__all__ = ["KILO", "SIZES", "converted", "exactly_in_kilo", "in_kilo", "size_of"]

SIZES: Final = {"W": 1, "kW": 1_000, "MW": 1_000_000, "Wh": 1, "kWh": 1_000, "MWh": 1_000_000}
"""The size of each unit in W or Wh."""

KILO: Final = SIZES["kW"]


def converted(value: float, unit: str, to: str) -> float | None:
    """Convert a value to another unit, as the decimal that it is; None if no conversion is known.

    The result is at most the largest double.
    """
    if unit == to:
        return value
    if unit not in SIZES or to not in SIZES or unit.endswith("h") != to.endswith("h"):
        return None
    return _resized(value, SIZES[unit], SIZES[to])


def size_of(unit: str | None) -> int:
    """Return the size of a unit in W or Wh. Values without a known unit are taken to be in kW or kWh."""
    return KILO if unit is None else SIZES.get(unit, KILO)


def in_kilo(value: float, size: int) -> float:
    """Convert a value in a unit of this size to kW or kWh, fast: its last digit may be a rounding error.

    The result is at most the largest double.
    """
    # Integer factors: 900 / 1000 is the double nearest to 0.9, but 900 * 0.001 need not be.
    return limited(value * (size // KILO)) if size >= KILO else value / (KILO // size)


def exactly_in_kilo(value: float, size: int) -> float:
    """Convert a value in a unit of this size to kW or kWh, as the decimal that it is.

    The result is at most the largest double.
    """
    return _resized(value, size, KILO)


def _resized(value: float, size: int, wanted: int) -> float:
    if size == wanted:
        return value
    # Of doubles, 2.01 * 1000 is 2009.9999999999998, and 4.1 / 1000 is 0.0040999999999999995.
    return limited(float(Decimal(repr(value)) * size / wanted))
