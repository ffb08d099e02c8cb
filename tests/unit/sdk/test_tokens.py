"""A TOKEN plant requests its tokens with its own signature, and its client reports what the service answers."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gridfleet.protocol.token_request import verify_token_request
from gridfleet.sdk.plant import (
    NotAuthorized,
    Options,
    Package,
    PackageError,
    PlantClient,
    PlantClientError,
    SignedTokens,
    TokenRefused,
    TokenUnavailable,
)

PLANT = "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d"
SECRET = bytes(range(32))
TOKEN = ".".join(base64.urlsafe_b64encode(part).decode() for part in (b"{}", b'{"exp":4102444800}', b"s"))


@dataclass
class Service:
    """What the stand-in for the service received, and what it answers."""

    url: str = ""
    status: int = 200
    body: Any = field(default_factory=lambda: {"token": TOKEN})
    received: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(found.status)
            self.end_headers()
            self.wfile.write(json.dumps(found.body).encode())

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/renew"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def package(url: str | None, port: int = 1) -> Package:
    topics = {"telemetry": "t", "status": "s", "commands": "c", "ack": "a"}
    mqtt = {"broker": "127.0.0.1", "port": port, "tls": True, "clientId": PLANT, "topics": topics, "tokenUrl": url}
    document = {"plantId": PLANT, "authMethod": "TOKEN", "mqtt": mqtt, "security": {"hmacSecret": SECRET.hex()}}
    return Package.parse(json.dumps(document))


async def test_each_request_is_signed_and_newer_than_the_last(service: Service) -> None:
    tokens = SignedTokens(package(service.url), clock=lambda: 1795168800.0)
    assert [await tokens() for _ in range(3)] == [TOKEN] * 3
    assert [request["sentAt"] for request in service.received] == [1795168800000, 1795168800001, 1795168800002]
    assert len({request["id"] for request in service.received}) == 3
    for request in service.received:
        assert verify_token_request(SECRET, request["sig"], PLANT, request["id"], request["sentAt"])


@pytest.mark.parametrize(
    ("status", "error"), [(401, TokenRefused), (403, TokenRefused), (429, TokenUnavailable), (500, TokenUnavailable)]
)
async def test_refusals_are_distinguished_from_outages(service: Service, status: int, error: type[Exception]) -> None:
    service.status, service.body = status, {"message": "Check the plant's clock.", "details": ["sentAt: is behind"]}
    with pytest.raises(TokenUnavailable, match="sentAt: is behind") as raised:
        await SignedTokens(package(service.url))()
    assert raised.type is error


async def test_a_request_that_was_refused_while_the_clock_was_ahead_does_not_shift_the_next_one(service: Service) -> None:
    now = 1795168800.0
    tokens = SignedTokens(package(service.url), clock=lambda: now)
    assert await tokens() == TOKEN
    now += 7200
    service.status = 401
    with pytest.raises(TokenRefused):
        await tokens()
    now -= 7199
    service.status = 200
    assert await tokens() == TOKEN
    assert service.received[-1]["sentAt"] == 1795168801000


@pytest.mark.parametrize("body", [{}, [], {"token": 5}])
async def test_a_response_without_a_token_is_an_outage(service: Service, body: Any) -> None:
    service.body = body
    with pytest.raises(TokenUnavailable):
        await SignedTokens(package(service.url))()


async def test_a_service_that_is_away_is_an_outage(service: Service, unused_tcp_port: int) -> None:
    with pytest.raises(TokenUnavailable):
        await SignedTokens(package(f"http://127.0.0.1:{unused_tcp_port}/"))()


@pytest.mark.parametrize("url", [None, "http://example.com/renew", "http://10.0.0.5/renew", "renew"])
def test_a_token_is_never_requested_unencrypted(url: str | None, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="tokenUrl"):
        PlantClient(package(url), queue_path=tmp_path / "q")


async def test_a_refused_plant_stops_like_one_whose_login_is_refused(service: Service, tmp_path: Path) -> None:
    service.status = 401
    options = Options(fsync=False, reconnect_min_seconds=0.01, reconnect_max_seconds=0.02, refusals_before_giving_up=3)
    with pytest.raises(NotAuthorized) as raised:
        async with PlantClient(package(service.url), queue_path=tmp_path / "q", options=options) as client:
            await client.wait_connected(20)
    assert (raised.value.refusals, len(service.received)) == (3, 3)
    problems: list[PlantClientError] = []
    client = PlantClient(package(service.url), queue_path=tmp_path / "q", options=options, on_problem=problems.append)
    async with client, asyncio.timeout(20):
        while len(problems) < 5:
            await asyncio.sleep(0.01)
    assert {type(problem) for problem in problems} == {NotAuthorized}
