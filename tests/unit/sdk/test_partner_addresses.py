"""Several addresses of the broker in a partner's client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gridfleet.sdk.partner import Partner
from gridfleet.sdk.partner.addresses import LOST, Addresses


@asynccontextmanager
async def closing_server(seen: list[int]) -> AsyncIterator[int]:
    """Run a server that closes each connection and notes its own port in `seen`. Yields the port."""

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("sockname")[1])
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_each_address_is_tried_once_in_turn() -> None:
    seen: list[int] = []
    async with closing_server(seen) as first, closing_server(seen) as second, closing_server(seen) as third:
        addresses = Addresses([f"amqp://acme:key@127.0.0.1:{port}/vhost" for port in (first, second, third)], None)
        for _ in range(2):
            with pytest.raises(LOST):
                await addresses.connect()
        assert seen == [first, second, third] * 2


@pytest.mark.parametrize(
    "addresses",
    [
        [],
        ["amqps://acme:key@mq1/vhost", "amqps://acme:other@mq2/vhost"],
        ["amqps://acme:key@mq1/vhost", "amqps://acme:key@mq2/other"],
        ["amqps://acme:key@mq1/vhost", "amqp://acme:key@mq2/vhost"],
    ],
)
async def test_addresses_that_are_not_of_one_broker_are_refused(addresses: list[str]) -> None:
    with pytest.raises(ValueError, match="differ in host and port only"):
        Partner(addresses)
