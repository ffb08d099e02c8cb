"""Turns of owners in one thread."""

import asyncio
import threading

from gridfleet.kernel.turns import FairThread


async def test_work_keeps_its_turn_when_its_caller_is_cancelled() -> None:
    thread = FairThread("test")
    begun, end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        end.wait(30)

    cancelled = asyncio.create_task(thread.run("one", work))
    await asyncio.to_thread(begun.wait, 30)
    cancelled.cancel()
    await asyncio.wait({cancelled})

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for owner in ("one", "other"):
            tasks.create_task(thread.run(owner, lambda owner=owner: done.append(owner)))
            await asyncio.sleep(0.01)
        end.set()
    assert done == ["other", "one"]
