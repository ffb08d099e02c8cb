"""Computation on many values, while the other work of the process continues."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from gridfleet.kernel.turns import FairThread

__all__ = ["COMPUTING", "computed"]

_Made = TypeVar("_Made")

COMPUTING: Final = FairThread("computing")
"""Makes large answers: one at a time of each organisation, so that none takes most of the process's time."""
_MOST_IN_LOOP: Final = 2_000
"""Values of a metric above which its energy is computed in a thread. Each takes a microsecond or two."""


async def computed(make: Callable[[], _Made], size: int) -> _Made:
    """Return what `make` returns. It runs in a thread if it processes more than 2,000 values.

    Args:
        size: The number of values that `make` processes.
    """
    if size > _MOST_IN_LOOP:
        return await asyncio.to_thread(make)
    await asyncio.sleep(0)
    return make()
