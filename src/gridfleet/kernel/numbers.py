"""Numbers in texts for users."""

from typing import Final

__all__ = ["compared"]

_DIGITS: Final = range(6, 17)
_LONGEST: Final = 1e15
"""From here on, numbers have an exponent."""


def compared(*values: float) -> tuple[str, ...]:
    """Return the texts of values that one sentence compares. Different values have different texts.

    A text has six significant digits, more if these do not show a difference, and always all digits before the decimal point.
    Trailing zeros are left out, and -0 is 0.
    """
    for digits in _DIGITS:
        texts = tuple(_text(value, digits) for value in values)
        if len(set(texts)) >= len(set(values)):
            return texts
    return tuple(repr(value + 0.0) for value in values)


def _text(value: float, digits: int) -> str:
    whole = len(f"{abs(value):.0f}") if abs(value) < _LONGEST else 0
    return f"{value + 0.0:.{max(digits, whole)}g}"
