"""The REST client logs in once, again when its token expires, waits when the answer says so, and says what went wrong."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from gridfleet.simulator.errors import ApiRefused, ApiUnreachable
from gridfleet.simulator.rest import Api


class Service(BaseHTTPRequestHandler):
    """Answers as the service does, from a list of prepared answers per path."""

    logins: ClassVar[int] = 0
    answers: ClassVar[dict[str, list[tuple[int, dict[str, str], Any]]]] = {}
    seen: ClassVar[list[tuple[str, str | None, str | None]]] = []

    def do_GET(self) -> None:
        path = self.path.removeprefix("/api/v1")
        Service.seen.append((path, self.headers.get("authorization"), self.headers.get("x-org-id")))
        status, headers, body = Service.answers[path].pop(0)
        self._answer(status, body, headers)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Service.logins += 1
        self._answer(200, {"access_token": f"token-{Service.logins}"}, {})

    def _answer(self, status: int, body: Any, headers: dict[str, str]) -> None:
        text = json.dumps(body).encode() if not isinstance(body, str) else body.encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(text)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def service() -> Iterator[str]:
    Service.logins, Service.answers, Service.seen = 0, {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


async def test_a_dead_token_is_replaced_and_pages_are_read_to_the_end(service: str) -> None:
    Service.answers = {
        "/plants?page=1&limit=100": [(401, {}, {}), (200, {}, {"data": [{"n": 1}], "meta": {"totalPages": 2}})],
        "/plants?page=2&limit=100": [(200, {}, {"data": [{"n": 2}], "meta": {"totalPages": 2}})],
    }
    async with Api(f"{service}/api/v1/", "a@example.com", "password") as api:
        assert await api.list("/plants", "org-1") == [{"n": 1}, {"n": 2}]

    assert Service.logins == 2
    assert Service.seen[-1] == ("/plants?page=2&limit=100", "Bearer token-2", "org-1")


async def test_a_rate_limit_is_waited_for(service: str) -> None:
    Service.answers = {"/x": [(429, {"retry-after": "0"}, {}), (200, {}, [1])]}
    async with Api(service, "a@example.com", "password") as api:
        assert await api.get("/x") == [1]


async def test_an_error_response_is_raised_with_its_code_and_details(service: str) -> None:
    body = {"statusCode": 400, "code": "VALIDATION_ERROR", "message": "no", "details": ["name: is too long"]}
    Service.answers = {"/x": [(400, {}, body)], "/y": [(502, {}, "<html>bad gateway</html>")]}
    async with Api(service, "a@example.com", "password") as api:
        with pytest.raises(ApiRefused, match=r"VALIDATION_ERROR: no .name: is too long") as raised:
            await api.get("/x")
        assert (raised.value.status, raised.value.code) == (400, "VALIDATION_ERROR")
        with pytest.raises(ApiRefused, match="bad gateway"):
            await api.get("/y")


async def test_no_server_at_the_address(unused_tcp_port: int) -> None:
    with pytest.raises(ApiUnreachable, match="is the service running"):
        async with Api(f"http://127.0.0.1:{unused_tcp_port}", "a@example.com", "password"):
            pass
