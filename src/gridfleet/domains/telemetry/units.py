"""Units that measurements are converted between: powers and energies."""

from typing import Final

from gridfleet.domains.telemetry.energy.arithmetic import limited

__all__ = ["SIZES", "converted"]

SIZES: Final = {"W": 1, "kW": 1_000, "MW": 1_000_000, "Wh": 1, "kWh": 1_000, "MWh": 1_000_000}
"""In W and Wh."""


def converted(value: float, unit: str, to: str) -> float | None:
    """Return a value of `unit` in the unit `to`, at most the largest double; None where no conversion is known."""
    if unit == to:
        return value
    if unit not in SIZES or to not in SIZES or unit.endswith("h") != to.endswith("h"):
        return None
    size, wanted = SIZES[unit], SIZES[to]
    # Whole factors: a quotient of 900 and 1000 is the double nearest to 0.9, a product with 0.001 need not be.
    return limited(value * (size // wanted)) if size >= wanted else value / (wanted // size)
