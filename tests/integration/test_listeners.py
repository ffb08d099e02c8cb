"""Both listeners as a client on a socket sees them."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
import pytest

from gridfleet.api.http import Call, Stream, endpoint, internal_endpoint, public
from gridfleet.api.http.endpoint import ENDPOINTS, INTERNAL_ENDPOINTS, import_handlers
from gridfleet.api.serving import serve
from gridfleet.api.state import AppState
from support.servers.api_process import api_command
from support.servers.served import INTERNAL_SECRET, Served, served
from support.servers.unread import unread

SCRIPT = "/docs/swagger-ui.js"


async def failing() -> AsyncIterator[bytes]:
    yield b"first"
    raise RuntimeError("the second piece fails")


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    import_handlers()  # or those of the first test would be gone with its own
    kept = dict(ENDPOINTS), dict(INTERNAL_ENDPOINTS)

    @internal_endpoint("POST", "/test/echo")
    async def echo(call: Call, form: Mapping[str, str]) -> str:
        return repr(dict(form))

    @internal_endpoint("POST", "/test/fail")
    async def fail(call: Call, form: Mapping[str, str]) -> str:
        raise RuntimeError("secret detail")

    @endpoint("GET", "/api/v1/test/cut", caller=public(), codes=(), response=str)
    async def cut() -> Stream:
        return Stream("text/plain", failing())

    with served(database_url, home) as running:
        yield running
    for registry, before in zip((ENDPOINTS, INTERNAL_ENDPOINTS), kept, strict=True):
        cast("dict[Any, Any]", registry).clear()
        cast("dict[Any, Any]", registry).update(before)


def exchange(port: int, request: bytes, seconds: float = 1) -> list[bytes]:
    """What arrives after the request, as the kernel hands it over, until it is quiet or the end."""
    received = []
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(request)
        try:
            while piece := connection.recv(65_536):
                received.append(piece)
        except TimeoutError:
            pass
    return received


def form(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


def test_internal_answers_leave_in_one_piece(service: Served) -> None:
    for _ in range(8):
        received = exchange(service.settings.internal_port, form(f"/{INTERNAL_SECRET}/test/echo", b"a=1"), 0.2)
        assert len(received) == 1
        assert received[0].endswith(b"{'a': '1'}")


def test_a_blank_form_field_is_not_an_absent_one(service: Served) -> None:
    received = exchange(service.settings.internal_port, form(f"/{INTERNAL_SECRET}/test/echo", b"username=u&password="), 0.2)
    assert received[0].endswith(b"{'username': 'u', 'password': ''}")


@pytest.mark.parametrize("path", ["/test/echo", "/wrong/test/echo", f"/{INTERNAL_SECRET}", f"/{INTERNAL_SECRET}/nothing", "/"])
def test_the_internal_listener_serves_nothing_beside_its_secret_path(service: Served, path: str) -> None:
    answer = httpx.post(f"http://127.0.0.1:{service.settings.internal_port}{path}")
    assert (answer.status_code, answer.text) == (404, "not found")


def test_the_public_listener_knows_nothing_of_internal_paths(service: Served) -> None:
    answer = httpx.post(f"{service.url}/{INTERNAL_SECRET}/test/echo")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("body", [b"username=\xff", b"username=%ff", b"a=1&" * 200, b"username=" + b"x" * 70_000])
def test_what_is_no_form_is_refused_without_a_failure(service: Served, body: bytes) -> None:
    answer = httpx.post(f"http://127.0.0.1:{service.settings.internal_port}/{INTERNAL_SECRET}/test/echo", content=body)
    assert (answer.status_code, answer.text) == (400, "bad request")


def test_an_internal_failure_reveals_nothing(service: Served) -> None:
    answer = httpx.post(f"http://127.0.0.1:{service.settings.internal_port}/{INTERNAL_SECRET}/test/fail")
    assert (answer.status_code, answer.text) == (500, "failed")


def test_a_stream_that_fails_midway_is_seen_to_be_cut(service: Served) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{service.url}/api/v1/test/cut")


@pytest.mark.parametrize("pieces", [False, True])
def test_a_client_that_sends_too_much_reads_why(service: Served, pieces: bool) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(50):
            yield b" " * 100_000

    content: bytes | Iterator[bytes] = body() if pieces else b"".join(body())
    answer = httpx.post(f"{service.url}/api/v1/auth/login", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_a_client_that_sends_more_than_its_share_reads_why(service: Served) -> None:
    """Bodies of which the last byte is missing hold the share of the address."""
    head = "POST /api/v1/%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    mebibyte = 1024 * 1024
    login = (head % ("auth/login", "application/json", mebibyte)).encode() + b" " * (mebibyte - 1)
    plants = (head % ("plants/import", "text/csv\r\nAuthorization: Bearer x", 5 * mebibyte)).encode() + b" " * (5 * mebibyte)
    with ExitStack() as connections:
        for _ in range(32):
            address = "127.0.0.1", service.settings.http_port
            connections.enter_context(socket.create_connection(address, timeout=10)).sendall(login)
        for _ in range(3):
            assert exchange(service.settings.http_port, plants, 10)[0].startswith(b"HTTP/1.1 429 ")


def test_a_connection_whose_client_reads_nothing_is_closed(
    database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.api.serving.UNREAD_MILLISECONDS", 3_000)
    import_handlers()
    with served(database_url, home) as service, unread(service.settings.http_port, SCRIPT) as client:

        def is_held() -> bool:
            connections = psutil.Process().net_connections()
            return any(one.raddr and one.raddr.port == client.getsockname()[1] for one in connections)

        for is_reached in (is_held, lambda: not is_held()):  # the listener accepts a connection after the client has it
            end = time.monotonic() + 60
            while not is_reached():
                assert time.monotonic() < end
                time.sleep(0.01)


def test_responses_that_are_not_read_take_little_memory(database_url: str, home: Path) -> None:
    """Anyone may ask for a script of 1.5 MB on each of thousands of connections."""
    with api_command(database_url, home, ()) as running, ExitStack() as connections:
        port, process = httpx.URL(running.url).port or 0, psutil.Process(running.process.pid)
        whole = len(httpx.get(f"{running.url}{SCRIPT}", headers={"accept-encoding": "identity"}).content)
        before = process.memory_info().rss
        for _ in range(100):
            connections.enter_context(unread(port, SCRIPT))
        time.sleep(3)
        assert process.memory_info().rss - before < 100 * whole / 3
        assert httpx.get(f"{running.url}/api/v1/health/live").is_success


def test_a_client_that_leaves_more_than_its_share_unread_is_refused_more(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.api.http.large_bodies.MOST_SENT_BYTES", 2 * 1024 * 1024)
    statuses: list[int] = []
    with ExitStack() as connections:
        for _ in range(4):
            connections.enter_context(unread(service.settings.http_port, SCRIPT))
        while statuses[-1:] != [429] and len(statuses) < 50:
            statuses.append(httpx.get(f"{service.url}{SCRIPT}").status_code)
            time.sleep(0.1)
        assert httpx.get(f"{service.url}/api/v1/health/live").is_success
    assert statuses[-1] == 429
    while httpx.get(f"{service.url}{SCRIPT}").status_code == 429:
        time.sleep(0.1)


async def test_a_taken_port_is_named(service: Served) -> None:
    class State:
        settings = service.settings
        strict = False

    run: Callable[[AppState], Any] = serve
    with pytest.raises(OSError, match=f"port {service.settings.http_port} of 127.0.0.1 is taken .*: set GRIDFLEET_HTTP_PORT"):
        await asyncio.wait_for(run(cast("AppState", State())), 5)


def test_other_methods_and_odd_requests_get_an_answer_of_ours(service: Served) -> None:
    for request, status in [
        (b"BREW /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"OPTIONS /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: not/a/host\r\n\r\n", b"400"),
        (b"GET /api/v1/plants/%00%ff HTTP/1.1\r\nHost: x\r\n\r\n", b"401"),
    ]:
        received = b"".join(exchange(service.settings.http_port, request, 0.3))
        assert received.split()[1] == status
        assert b"x-request-id: " in received
        assert b'"details":[' in received


def test_head_and_options_leave_a_kept_connection_usable(service: Served) -> None:
    """A body after the header of a HEAD would be read as the next response."""
    with httpx.Client(base_url=service.url) as client:
        got = client.get("/docs/page.js")
        for _ in range(2):
            head = client.head("/docs/page.js")
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == got.headers["content-length"]
            options = client.options("/docs/page.js")
            assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
            assert client.head("/api/v1/nowhere").status_code == 404
            assert client.get("/api/v1/health").json()["status"] == "ok"


def test_head_of_a_history_has_the_status_of_get(service: Served) -> None:
    plant = httpx.post(
        f"{service.url}/api/v1/plants",
        headers=service.headers,
        json={"name": "P", "serialNumber": "HEAD-1", "type": "GATEWAY"},
    ).json()["id"]
    query = {"plantId": plant, "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    for changed, status in [({}, 200), ({"to": "x"}, 400), ({"plantId": "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d"}, 404)]:
        head = httpx.head(f"{service.url}/api/v1/telemetry", params={**query, **changed}, headers=service.headers)
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["content-type"] == "application/json"


def test_a_process_that_drains_takes_requests_and_says_that_it_stops(database_url: str, home: Path) -> None:
    with api_command(database_url, home, (), http_drain_seconds=4) as api:
        health = f"{api.url}/api/v1/health"
        assert httpx.get(health).json()["status"] == "ok"
        api.process.terminate()
        deadline = time.monotonic() + 3
        while (answer := httpx.get(health)).is_success:  # until the signal has arrived
            assert time.monotonic() < deadline
        assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
        assert httpx.get(f"{health}/live").status_code == 200
        assert httpx.get(f"{api.url}/api/v1/auth/me").status_code == 401
        assert api.process.wait(20) == 0
