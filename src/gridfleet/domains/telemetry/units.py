"""Units of power and energy, and their conversion."""

from typing import Final

from gridfleet.domains.telemetry.energy.arithmetic import limited

__all__ = ["KILO", "SIZES", "converted", "in_kilo", "size_of"]

SIZES: Final = {"W": 1, "kW": 1_000, "MW": 1_000_000, "Wh": 1, "kWh": 1_000, "MWh": 1_000_000}
"""The size of each unit in W or Wh."""

KILO: Final = SIZES["kW"]


def converted(value: float, unit: str, to: str) -> float | None:
    """Convert a value to another unit; None if no conversion is known. The result is at most the largest double."""
    if unit == to:
        return value
    if unit not in SIZES or to not in SIZES or unit.endswith("h") != to.endswith("h"):
        return None
    return _resized(value, SIZES[unit], SIZES[to])


def size_of(unit: str) -> int:
    """Return the size of a unit in W or Wh. Values without a known unit are taken to be in kW or kWh."""
    return SIZES.get(unit, KILO)


def in_kilo(value: float, size: int) -> float:
    """Convert a value in a unit of this size to kW or kWh. The result is at most the largest double."""
    return _resized(value, size, KILO)


def _resized(value: float, size: int, wanted: int) -> float:
    # Integer factors: 900 / 1000 is the double nearest to 0.9, but 900 * 0.001 need not be.
    return limited(value * (size // wanted)) if size >= wanted else value / (wanted // size)
