"""What a client accepts: the lists with qualities of the headers `Accept` and `Accept-Encoding` (RFC 9110, 12.4.2)."""

from collections.abc import Iterator
from typing import Final

__all__ = ["preferences"]

_LONGEST: Final = 2_000
"""Characters of a header that are read. Browsers send at most some hundred; a header may have 64 KiB."""


def preferences(header: str) -> Iterator[tuple[str, float]]:
    """Yield each name of a header in lower case, with its quality from 0 to 1. A malformed quality is 0."""
    for part in header[:_LONGEST].lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                quality = _quality(parameter[2:])
        yield name, quality


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
