"""Tasks that run beside a test."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """A task that ends with the block, or before."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


@dataclass
class WatchedLoop:
    """CPU seconds, because other programs may take the cores in between."""

    longest: float = 0.0
    """Of the longest turn of the event loop, in which all other tasks waited."""
    total: float = 0.0
    """Of the process, with its threads; 0 until the end of the block."""


@asynccontextmanager
async def watched_loop() -> AsyncIterator[WatchedLoop]:
    """Measure the turns of the event loop until the end of the block.

    What other tests left in the process is not collected meanwhile: that may take half a second.
    """
    found = WatchedLoop()
    gc.collect()
    gc.freeze()

    async def watch() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            found.longest, before = max(found.longest, now - before), now

    began = time.process_time()
    try:
        async with running(watch()):
            await asyncio.sleep(0)  # the watch has begun
            yield found
            await asyncio.sleep(0.005)  # the last turn is measured, too
        found.total = time.process_time() - began
    finally:
        gc.unfreeze()
