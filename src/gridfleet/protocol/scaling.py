"""How a field becomes a measured value: raw × scale + offset, with the digits that the decimals have.

No double is 0.1, and 413 times the nearest one is 41.300000000000004. An alert rule "above 41.3" would match it, and "equal to
41.3" would not. So decimals are applied as whole numbers: 413 × 1 / 10.
"""

from fractions import Fraction
from math import isfinite, lcm
from typing import Final, NamedTuple

__all__ = ["Scaling"]

_EXACT: Final = 2**53
"""Up to this size, each whole number is a double."""


class Scaling(NamedTuple):
    """The numbers of raw × scale + offset = (raw × factor + added) / divisor."""

    factor: float = 1.0
    added: float = 0.0
    divisor: float = 1.0

    @classmethod
    def of(cls, scale: float, offset: float) -> "Scaling":
        """Return the scaling with a whole factor, addend and divisor.

        If these would have too many digits for a double, they are `scale`, `offset` and 1.
        """
        factor, added = Fraction(repr(scale)), Fraction(repr(offset))
        divisor = lcm(factor.denominator, added.denominator)
        whole = int(factor * divisor), int(added * divisor), divisor
        if max(map(abs, whole)) > _EXACT:
            return cls(scale, offset)
        return cls(*map(float, whole))

    def value(self, raw: float) -> float:
        """Return the value of a raw number; infinite if it is beyond the largest double."""
        value = (raw * self.factor + self.added) / self.divisor
        if isfinite(value):
            return value
        return raw * (self.factor / self.divisor) + self.added / self.divisor
