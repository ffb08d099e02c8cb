"""A plant whose package lists several addresses of the broker."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import NotAuthorized, Options, Package, PlantClient, PlantClientError, Snapshot, TokenUnavailable
from support.servers.broker_line import BrokerLine, broker_line

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2, refusals_before_giving_up=4)


def at(package: Package, *addresses: tuple[str, int]) -> Package:
    """Return the package with these addresses, parsed from JSON as the service would write it."""
    document = msgspec.to_builtins(package)
    host, port = addresses[0]
    document["mqtt"] |= {"broker": host, "port": port, "addresses": [{"host": host, "port": port} for host, port in addresses]}
    return Package.parse(json.dumps(document))


async def snapshots(broker: Any, plant: Any) -> list[int]:
    return [json.loads(message.payload())["seq"] for message in await broker.received(plant.id, Channel.TELEMETRY)]


@pytest.mark.parametrize("method", ["MTLS", "PASSWORD"])
async def test_the_second_address_is_used_while_the_first_is_dead(
    broker: Any, plant: Any, tmp_path: Path, unused_tcp_port: int, method: str
) -> None:
    problems: list[PlantClientError] = []
    original = plant.package(method)
    package = at(original, ("localhost", unused_tcp_port), ("127.0.0.1", original.mqtt.port))
    async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
        await client.send(Snapshot(time=1, seq=1))
        await client.drain(timeout_seconds=20)
    assert [f"localhost:{unused_tcp_port}" in str(problem) for problem in problems] == [True]
    assert await snapshots(broker, plant) == [1]


async def test_a_client_continues_at_the_second_address_and_returns_to_the_first(
    broker: Any, plant: Any, tmp_path: Path
) -> None:
    target = f"mqtts://127.0.0.1:{broker.ports['mqtts']}"
    async with AsyncExitStack() as first, broker_line(target) as second:
        line = await first.enter_async_context(broker_line(target))
        package = at(plant.package("MTLS"), ("localhost", line.port), ("localhost", second.port))
        problems: list[PlantClientError] = []
        async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
            await client.send(Snapshot(time=1, seq=1))
            await client.drain(timeout_seconds=20)
            assert (len(line.serving), len(second.serving)) == (1, 0)

            await first.aclose()
            await client.send(Snapshot(time=2, seq=2))
            await client.drain(timeout_seconds=20)
            assert len(second.serving) == 1
            assert f"localhost:{line.port}: the connection broke" in str(problems[0])

            async with broker_line(target, port=line.port) as repaired:
                second.reset()
                await client.send(Snapshot(time=3, seq=3))
                await client.drain(timeout_seconds=20)
                assert len(repaired.serving) == 1
    assert await snapshots(broker, plant) == [1, 2, 3]


async def test_the_name_of_each_address_is_verified(broker: Any, plant: Any, tmp_path: Path) -> None:
    async with broker_line(f"mqtts://127.0.0.1:{broker.ports['mqtts']}", host="127.0.0.2") as line:
        package = at(plant.package("MTLS"), ("127.0.0.2", line.port), ("localhost", broker.ports["mqtts"]))
        problems: list[PlantClientError] = []
        async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
            await client.send(Snapshot(time=1, seq=1))
            await client.drain(timeout_seconds=20)
    [problem] = problems
    assert f"127.0.0.2:{line.port}" in str(problem)
    assert "CERTIFICATE_VERIFY_FAILED" in str(problem)
    assert await snapshots(broker, plant) == [1]


async def test_a_refused_login_uses_one_address_each_time(broker: Any, plant: Any, tmp_path: Path) -> None:
    target = f"mqtt://127.0.0.1:{broker.ports['mqtt']}"
    async with broker_line(target) as first, broker_line(target) as second:
        package = at(plant.package(password="wrong"), *(("localhost", line.port) for line in (first, second)))
        with pytest.raises(NotAuthorized) as raised:
            async with PlantClient(package, queue_path=tmp_path / "q", options=QUICK) as client:
                await client.wait_connected(30)
        assert raised.value.refusals == 4
        assert connections([first, second]) == [2, 2]


async def test_a_missing_token_is_no_fault_of_the_address(broker: Any, plant: Any, tmp_path: Path) -> None:
    tries = 0

    async def provider() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("the service is away")
        return str(plant.password)

    problems: list[PlantClientError] = []
    target = f"mqtts://127.0.0.1:{broker.ports['mqtts']}"
    async with broker_line(target) as first, broker_line(target) as second:
        package = at(plant.package("TOKEN"), *(("localhost", line.port) for line in (first, second)))
        async with PlantClient(
            package, queue_path=tmp_path / "q", token_provider=provider, on_problem=problems.append, options=QUICK
        ) as client:
            await client.wait_connected(20)
        assert [type(problem) for problem in problems] == [TokenUnavailable]
        assert connections([first, second]) == [1, 0]


def connections(lines: Sequence[BrokerLine]) -> list[int]:
    """Return the number of connections that each line has accepted."""
    return [len(line.serving) for line in lines]
