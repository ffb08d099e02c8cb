"""Bodies that come in chunks, against the limit of their endpoint."""

import asyncio
from typing import Any

import pytest

from gridfleet.api.http.bodies import read_body
from gridfleet.api.http.errors import PayloadTooLarge


async def read(*chunks: bytes, limit: int) -> bytes:
    """Read a body whose sender stays connected and silent after the last chunk."""
    events = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    events[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        if not events:
            await asyncio.Event().wait()
        return events.pop(0)

    async with asyncio.timeout(2):
        return await read_body(receive, 0, limit)


async def test_chunks_up_to_the_limit_are_joined() -> None:
    assert await read(b"", limit=0) == b""
    assert await read(b"12345", limit=5) == b"12345"
    assert await read(b"123", b"45", limit=5) == b"12345"


@pytest.mark.parametrize("chunks", [(b"123456",), (b"123", b"456"), (b"123456", b"7", b"8")])
async def test_a_longer_body_is_refused_as_soon_as_it_has_arrived(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(PayloadTooLarge):
        await read(*chunks, limit=5)
