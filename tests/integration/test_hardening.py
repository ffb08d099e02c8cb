"""What a hostile client on a socket gets: headers on every answer, refusals of what is malformed, bounds on what is big."""

import gzip
import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from support.servers.api_process import api_process
from support.servers.served import Served, served

import_handlers()
LOGIN = "/api/v1/auth/login"
EVERYWHERE = {
    "server": "gridfleet",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
PAGES = [path for method, path in ENDPOINTS if path.startswith(("/docs", "/account"))]


@pytest.fixture(scope="module")
def service(postgres_url: str) -> Iterator[Served]:
    with (
        tempfile.TemporaryDirectory() as home,
        psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server,
    ):
        server.execute("CREATE DATABASE hardening TEMPLATE gridfleet")
        with served(postgres_url.replace("/gridfleet?", "/hardening?"), Path(home)) as running:
            yield running
        server.execute("DROP DATABASE hardening WITH (FORCE)")


@pytest.fixture
def client(service: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=20) as opened:
        yield opened


def talk(service: Served, request: bytes) -> bytes:
    """Everything that comes back until the other side closes, or is silent for a while."""
    received = b""
    with socket.create_connection(("127.0.0.1", service.settings.http_port), timeout=0.5) as connection:
        connection.sendall(request)
        try:
            while piece := connection.recv(65_536):
                received += piece
        except TimeoutError:
            pass
    return received


def test_headers_of_every_kind_of_answer(client: httpx.Client, service: Served) -> None:
    answers = [
        client.get("/api/v1/health"),
        client.get("/api/v1/nothing"),
        client.request("TRACE", "/api/v1/health"),
        client.request("PROPFIND", "/api/v1/health"),
        client.delete("/api/v1/health"),
        client.get("/api/v1/plants"),
        client.get("/api/v1/plants", headers=service.headers),
        client.get("/api/v1/plants/x", headers=service.headers),
        client.post(LOGIN, content=b"{", headers={"content-type": "application/json"}),
        client.post(LOGIN, content=b" " * 1_100_000),
        client.get("/api/v1/openapi.json"),
        *(client.get(page) for page in PAGES),
    ]
    assert {answer.status_code for answer in answers} >= {200, 400, 401, 404, 413}
    for answer in answers:
        assert EVERYWHERE.items() <= dict(answer.headers).items(), answer.request.url
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "x-request-id" in answer.headers
        assert "strict-transport-security" not in answer.headers, "there is no TLS here"
        assert len(answer.headers.get_list("content-security-policy")) == 1


@pytest.mark.parametrize("page", PAGES)
def test_pages_may_do_what_they_need_and_no_more(client: httpx.Client, page: str) -> None:
    headers = client.get(page).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]


@pytest.mark.parametrize("page", [*PAGES, "/api/v1/openapi.json"])
def test_a_page_is_sent_once_for_each_version(client: httpx.Client, page: str) -> None:
    first = client.get(page)
    tag = first.headers["etag"]
    assert tag.startswith('W/"'), "a strong tag would promise the same bytes in every encoding"
    for given in (tag, f'"other", {tag[2:]}'):
        again = client.get(page, headers={"if-none-match": given})
        assert (again.status_code, again.content) == (304, b"")
        same = ("etag", "cache-control", "content-security-policy", "vary")
        assert [again.headers[name] for name in same] == [first.headers[name] for name in same]
        assert "content-type" not in again.headers
    changed = client.get(page, headers={"if-none-match": '"other"'})
    assert (changed.status_code, changed.content) == (200, first.content)


@pytest.mark.parametrize(
    "path",
    ["/docs/../../../../etc/passwd", "/docs/%2e%2e/%2e%2e/pyproject.toml", "/docs/..%2fpage.html", "/docs/page.js%00.css"],
)
def test_no_path_leads_out_of_the_pages(service: Served, path: str) -> None:
    received = talk(service, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert received.split()[1] in (b"404", b"400")
    assert b"root:" not in received


SMUGGLED = b"GET /api/v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Content-Length: 5, 6\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    ],
)
def test_a_request_whose_length_is_ambiguous_ends_the_connection(service: Served, headers: bytes) -> None:
    """What stands behind it may be another request to us and the rest of this one to a proxy: it is not answered."""
    received = talk(service, POST + headers + SMUGGLED)
    assert received.count(b"HTTP/1.1 ") <= 1
    assert b'"status":"ok"' not in received
    if received:
        assert received.split()[1] in (b"400", b"499")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(500)) + b"\r\n",
        b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 3_000_000 + b"\r\n\r\n",
        b"GET /api/v1/health?" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\x00\x00",
    ],
    ids=["many headers", "a big header", "a long address", "http/2", "tls", "another version", "nonsense"],
)
def test_what_is_no_request_is_refused_and_cut_off(service: Served, request_: bytes) -> None:
    try:
        received = talk(service, request_)
    except ConnectionError:
        return
    assert received == b"" or received.split()[1] in (b"400", b"414", b"431")
    assert b"granian" not in received.lower()


def refused(answer: httpx.Response) -> str:
    """The one complaint of a 400."""
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.text
    [complaint] = answer.json()["details"]
    return str(complaint)


def test_hostile_bodies_are_named(client: httpx.Client) -> None:
    def post(content: bytes, **headers: str) -> httpx.Response:
        return client.post(LOGIN, content=content, headers={"content-type": "application/json"} | headers)

    bomb = gzip.compress(b" " * 50_000_000)
    for encoding in ("gzip", "deflate", "br", "GZIP", "gzip, gzip"):
        assert refused(post(bomb, **{"content-encoding": encoding})) == "body: must not be compressed"
    assert "nesting" in refused(post(b"[" * 200_000 + b"]" * 200_000))
    assert "digits" in refused(post(b'{"email": ' + b"9" * 10_000 + b"}"))
    assert "UTF-8" in refused(post(b"\xff"))
    answer = client.get("/api/v1/health/live", params=[(f"p{n}", "x") for n in range(1_000)])
    assert answer.status_code in (200, 400)


@pytest.mark.slow
def test_memory_stays_bounded_whatever_is_sent(database_url: str, home: Path) -> None:
    with api_process(database_url, home) as base:
        url = httpx.URL(base)
        [process] = [one for one in psutil.process_iter() if _listens(one, url.port or 0)]
        bodies = [b"[" * 1_000_000, b'{"a":' * 200_000, b'"' + b"x" * 1_000_000 + b'"', json.dumps([[]] * 200_000).encode()]

        def attack() -> None:
            for body in bodies:
                answer = httpx.post(f"{base}{LOGIN}", content=body, headers={"content-type": "application/json"}, timeout=30)
                assert answer.status_code == 400
            for _ in range(2):  # 20 MB in pieces, of which nothing is kept
                connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=30)
                try:
                    connection.request("POST", LOGIN, body=(b"x" * 100_000 for _ in range(100)), encode_chunked=True,
                                       headers={"transfer-encoding": "chunked"})  # fmt: skip
                    assert connection.getresponse().status == 413
                finally:
                    connection.close()

        attack()
        before = process.memory_info().rss
        for _ in range(2):
            attack()
        assert process.memory_info().rss - before < 30_000_000
        assert process.memory_info().rss < 400_000_000


def _listens(process: psutil.Process, port: int) -> bool:
    try:
        return any(one.laddr.port == port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    except psutil.Error:
        return False
