"""Clients that hold connections and send nothing, or next to nothing: others are served as if they were not there."""

import asyncio
import itertools
import resource
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from support.figures import Figure
from support.servers.api_process import api_process

HEADER = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_BODY = HEADER + b"Content-Length: 100000\r\n\r\n{"
MANY = 1_000
MOST_P99_SECONDS = 0.2


@asynccontextmanager
async def holding(port: int, count: int, start: bytes, drip: Callable[[], bytes]) -> AsyncIterator[list[bool]]:
    """`count` connections that begin with `start` and then send a drip a second; gives which of them were ended."""
    ended = [False] * count
    writers: list[asyncio.StreamWriter] = []

    async def watch(number: int, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while await reader.read(1024):
                pass
        ended[number] = True

    watching = []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        writers.append(writer)
        watching.append(asyncio.create_task(watch(number, reader)))

    async def send() -> None:
        while True:
            for number, writer in enumerate(writers):
                if not ended[number] and (drop := drip()):
                    with suppress(OSError):
                        writer.write(drop)
            await asyncio.sleep(1)

    sending = asyncio.create_task(send())
    try:
        yield ended
    finally:
        for task in (sending, *watching):
            task.cancel()
        for writer in writers:
            writer.close()


async def health_seconds(port: int, seconds: float) -> list[float]:
    """How long health checks took, on a new connection each."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        found.append(time.perf_counter() - started)
        writer.close()
        await asyncio.sleep(0.02)
    return found


KINDS = {
    "idle": (b"", lambda: b""),
    "half a header": (HEADER, itertools.cycle([b"X", b"-", b"a"]).__next__),
    "half a body": (HALF_BODY, lambda: b" "),
}


async def test_a_few_slow_clients_do_not_delay_other_clients(database_url: str, home: Path) -> None:
    with api_process(database_url, home, http_connections=64) as base:
        async with AsyncExitStack() as stack:
            port = httpx.URL(base).port or 0
            for start, drip in KINDS.values():
                await stack.enter_async_context(holding(port, 15, start, drip))
            assert len(await health_seconds(port, 0.5)) > 1


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
async def test_a_thousand_slow_clients(kind: str, database_url: str, home: Path, figure: Figure) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MANY)), hard))
    start, drip = KINDS[kind]
    with api_process(database_url, home) as base:
        port = httpx.URL(base).port or 0
        async with holding(port, MANY, start, drip) as ended:
            p99 = statistics.quantiles(await health_seconds(port, 10), n=100)[98]
            async with asyncio.timeout(60):  # 15 s for a header, 30 s for a body
                while not all(ended):
                    await asyncio.sleep(0.1)
    figure(f"health beside {MANY} slow clients ({kind}), p99", p99 * 1000, "ms", MOST_P99_SECONDS * 1000)
    assert p99 < MOST_P99_SECONDS
