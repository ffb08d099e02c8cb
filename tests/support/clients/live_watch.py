"""A program that watches the values of a plant."""

import asyncio
from collections.abc import AsyncIterator

from gridfleet.domains.telemetry.history.live import ValueChanges

__all__ = ["next_change"]


async def next_change(watch: AsyncIterator[ValueChanges], seconds: float = 60) -> ValueChanges:
    """Return the next values that changed. Turns in which nothing changed are skipped."""
    async with asyncio.timeout(seconds):
        while not (changes := await anext(watch)).points:
            pass
    return changes
