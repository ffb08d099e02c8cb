"""A device connects with each method, says that it is there, and does not hide a refusal."""

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import (
    ConnectFailed,
    NotAuthorized,
    Options,
    PackageError,
    PlantClient,
    PlantClientError,
    Snapshot,
    TokenUnavailable,
)

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2, refusals_before_giving_up=3)


async def statuses(broker: Any, plant: Any) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in await broker.received(plant.id, Channel.STATUS)]


def token_for(password: str, lives_seconds: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + lives_seconds, "p": password}).encode())
    return f"e30.{claims.decode().rstrip('=')}.sig"


@pytest.mark.parametrize("method", ["MTLS", "TOKEN", "PASSWORD"])
async def test_each_method_delivers(broker: Any, plant: Any, tmp_path: Path, method: str) -> None:
    async def token() -> str:
        return str(plant.password)

    package = plant.package(method)
    provider = token if method == "TOKEN" else None
    async with PlantClient(
        package, queue_path=tmp_path / "q", token_provider=provider, firmware="1.2", options=QUICK
    ) as client:
        await client.wait_connected(10)
        await client.send(Snapshot(time=1795168800123, fields={"f": 50}))
        await client.drain(timeout_seconds=10)
        assert client.counters.snapshots == 1

    [message] = await broker.received(plant.id, Channel.TELEMETRY)
    assert json.loads(message.payload()) == {"time": 1795168800123, "fields": {"f": 50}}
    online, offline = await statuses(broker, plant)
    assert (online["status"], online["firmware"]) == ("ONLINE", "1.2")
    assert (offline["status"], offline["reason"]) == ("OFFLINE", "stopped")


async def test_the_last_word_is_retained(broker: Any, plant: Any, tmp_path: Path) -> None:
    package = plant.package()

    async def retained() -> dict[str, Any]:
        async with aiomqtt.Client("127.0.0.1", package.mqtt.port, username=plant.id, password=plant.password) as client:
            await client.subscribe(package.mqtt.topics.status)
            async with asyncio.timeout(5):
                message = await anext(client.messages)
            assert isinstance(message.payload, bytes)
            assert message.retain
            return json.loads(message.payload)  # type: ignore[no-any-return]

    async with PlantClient(package, queue_path=tmp_path / "q", options=QUICK) as client:
        await client.wait_connected(10)
        assert (await retained())["status"] == "ONLINE"
    assert (await retained())["status"] == "OFFLINE"


async def test_a_wrong_password_is_an_error_after_a_few_tries(plant: Any, tmp_path: Path) -> None:
    client = PlantClient(plant.package(password="wrong"), queue_path=tmp_path / "q", options=QUICK)

    with pytest.raises(NotAuthorized, match="3 times") as raised:
        async with client:
            await client.wait_connected(20)
    assert raised.value.refusals == 3


async def test_what_is_sent_after_a_refusal_is_kept_and_the_refusal_is_raised(plant: Any, tmp_path: Path) -> None:
    with pytest.raises(NotAuthorized):  # noqa: PT012
        async with PlantClient(plant.package(password="wrong"), queue_path=tmp_path / "q", options=QUICK) as client:
            with pytest.raises(NotAuthorized):
                await client.wait_connected(20)
            await client.send(Snapshot(time=1))

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.drain(timeout_seconds=10)
        assert client.counters.snapshots == 1


async def test_a_client_outlasts_an_outage_in_which_the_broker_refuses_logins(
    plant: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker refuses them while the service is away. After ten, a plant stopped for good."""
    options = Options(fsync=False, reconnect_min_seconds=0.01, reconnect_max_seconds=0.02)
    async with PlantClient(plant.package(password="wrong"), queue_path=tmp_path / "q", options=options) as client:
        async with asyncio.timeout(120):  # RabbitMQ 4 takes three seconds to refuse a login
            while sum("refused the credentials" in line for line in caplog.messages) < 12:
                await asyncio.sleep(0.05)
        await client.send(Snapshot(time=1))
        with pytest.raises(TimeoutError):
            await client.wait_connected(0.1)
    assert client.waiting == 1


async def test_with_a_listener_problems_are_reported_and_tried_on(plant: Any, tmp_path: Path) -> None:
    problems: list[PlantClientError] = []
    package = plant.package(password="wrong")
    async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
        async with asyncio.timeout(20):
            while len(problems) < 5:
                await asyncio.sleep(0.05)
        assert not client.connected
    assert all(isinstance(problem, NotAuthorized) for problem in problems)


async def test_a_foreign_certificate_never_connects(plant: Any, authority: Any, tmp_path: Path) -> None:
    foreign = authority.issue_client(plant.id)
    package = plant.package("MTLS", clientCert=foreign.certificate_pem, clientKey=foreign.key_pem)
    problems: list[PlantClientError] = []
    async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
        async with asyncio.timeout(20):
            while not problems:
                await asyncio.sleep(0.05)
        assert not client.connected
    assert isinstance(problems[0], ConnectFailed)


async def test_a_broker_with_a_foreign_certificate_is_not_trusted(plant: Any, authority: Any, tmp_path: Path) -> None:
    problems: list[PlantClientError] = []
    package = plant.package("MTLS", caCert=authority.certificate_pem)
    async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK):
        async with asyncio.timeout(20):
            while not problems:
                await asyncio.sleep(0.05)
    assert "CERTIFICATE_VERIFY_FAILED" in str(problems[0])


async def test_the_token_provider_is_asked_again_when_a_token_was_refused(plant: Any, tmp_path: Path) -> None:
    asked = 0

    async def provider() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise OSError("the service is away")
        return "expired" if asked == 2 else str(plant.password)

    problems: list[PlantClientError] = []
    async with PlantClient(
        plant.package("TOKEN"), queue_path=tmp_path / "q", token_provider=provider, on_problem=problems.append, options=QUICK
    ) as client:
        await client.wait_connected(20)
    assert [type(problem) for problem in problems] == [TokenUnavailable, NotAuthorized]


async def test_a_token_that_is_no_jwt_does_not_end_the_connection(plant: Any, tmp_path: Path) -> None:
    tokens = iter(["a.\u00fc.c", str(plant.password)])

    async def provider() -> str:
        return next(tokens)

    problems: list[PlantClientError] = []
    async with PlantClient(
        plant.package("TOKEN"), queue_path=tmp_path / "q", token_provider=provider, on_problem=problems.append, options=QUICK
    ) as client:
        await client.wait_connected(20)
    assert [type(problem) for problem in problems] == [NotAuthorized]


def test_a_token_plant_needs_a_provider(plant: Any, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="tokenUrl"):
        PlantClient(plant.package("TOKEN"), queue_path=tmp_path / "q")


async def test_stopping_does_not_wait_for_a_broker_that_is_away(plant: Any, tmp_path: Path, unused_tcp_port: int) -> None:
    plant.port = unused_tcp_port
    started = time.monotonic()
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.send(Snapshot(time=1))
        await asyncio.sleep(0.2)
    assert time.monotonic() - started < 5


def test_a_package_with_a_broken_certificate_is_a_package_error(plant: Any, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="unusable"):
        PlantClient(plant.package("MTLS", clientKey="no key"), queue_path=tmp_path / "q")
