"""A program that watches the values of a plant."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from gridfleet.domains.telemetry.history.models import TelemetryPoint

__all__ = ["next_change"]


async def next_change(watch: AsyncIterator[Sequence[TelemetryPoint]], seconds: float = 60) -> Sequence[TelemetryPoint]:
    """Return the next values that changed. Turns in which nothing changed are skipped."""
    async with asyncio.timeout(seconds):
        while not (changed := await anext(watch)):
            pass
    return changed
