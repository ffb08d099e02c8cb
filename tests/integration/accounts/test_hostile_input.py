"""Endpoints of accounts and lists over a fleet answer hostile input of every caller with the envelope, and never fail."""

import base64
import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from gridfleet.api.http.endpoint import ENDPOINTS, Endpoint, import_handlers
from gridfleet.api.http.schema import JsonSchemas
from support.clients.people import People, Person
from support.servers.served import Served, served

import_handlers()
SECTIONS: Final = tuple(
    f"/api/v1/{section}"
    for section in (
        "auth",
        "organizations",
        "users",
        "invitations",
        "audit-events",
        "notifications",
        "vcp/sites",
        "alerts",
        "commands",
        "fleet/refused-messages",
        "fleet/unregistered-devices",
        "plant-groups",
        "device-templates/{templateId}",
    )
)
ROWS: Final = {row: endpoint for row, endpoint in ENDPOINTS.items() if row[1].startswith(SECTIONS)}
WITH_BODY: Final = {row: endpoint for row, endpoint in ROWS.items() if endpoint.body_type is not None}

UNKNOWN_ID: Final = str(uuid4())

STRINGS: Final = [
    "",
    " ",
    "a\x00b",
    "\x00",
    "\x1b[2J",
    "\r\nBcc: victim@example.com",
    "'; DROP TABLE user_account; --",
    "%s %(x)s {0} ${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "\u202egnp.exe",
    "\ufeff\ufffe\uffff",
    "\U0001f4a5" * 50,
    "e\u0301" * 200,
    "x" * 100_000,
    "ada@" + "x" * 250 + ".com",
    "a" * 64 + "@example.com",
    "ada@exam\u0440le.com",
    '"ada b"@example.com',
    "\ud800",
]
OTHERS: Final = [None, True, 0, -1, 1e308, 2**63, 10**400, [], [[]], {}, {"$gt": ""}, [None] * 1000, {"a": {"b": {"c": []}}}]
RAW: Final = [
    b"",
    b" ",
    b"\x00",
    b"\xff\xfe",
    b'{"email":"\xc3\x28"}',
    b"{",
    b"nonsense",
    b"null",
    b"[]",
    b'"text"',
    b"NaN",
    b'{"email": NaN}',
    b'{"email":"a@example.com","email":"b@example.com"}',
    b'{"name":"A","name":"B","role":"VIEWER","role":"ORG_ADMIN"}',
    b'{"email":"\\ud800"}',
    b'{"\\ud800":1,"\\ud800":2}',
    b'{"csp-report":{"\\ud800":"\\u0000"}}',
    b'{"__proto__":{"isSuperAdmin":true},"constructor":1}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[" * 500 + b"]" * 500,
    b'{"name":' + b"9" * 5000 + b"}",
    b'{"x":1}' * 2,
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
    '{"name":"ä"}'.encode("utf-16"),
]


def is_envelope(answer: httpx.Response) -> bool:
    """Whether an answer is a success, or a refusal in full."""
    if answer.is_success:
        return True
    body = answer.json()
    fits = set(body) == {"statusCode", "error", "message", "code", "details"} and body["statusCode"] == answer.status_code
    return fits and answer.status_code < 500 and "Traceback" not in answer.text and "SELECT" not in answer.text


def path_of(row: tuple[str, str], **values: str) -> str:
    """The path with ids that no record has, or with these."""
    path = row[1].removeprefix("/api/v1")
    for name in ("id", "orgId", "memberId", "siteId", "token", "commandId", "templateId"):
        path = path.replace(f"{{{name}}}", values.get(name, str(uuid4())))
    return path


def valid_body(endpoint: Endpoint) -> dict[str, Any]:
    """Something for each field of the body."""
    schemas = JsonSchemas()
    fields = schemas.resolve(schemas.taken(endpoint.body_type))["properties"]
    samples = {
        "email": "new@example.com",
        "role": "VIEWER",
        "slug": "new",
        "organizationId": str(uuid4()),
        "token": "a" * 64,
        "password": "Correct horse 1!",
        "currentPassword": "Correct horse 1!",
        "newPassword": "quite another password",
    }
    return {name: samples.get(name, "A name") for name in fields}


@pytest.fixture
async def admin(people: People) -> Person:
    return await people.person(super_admin=True)


@pytest.mark.parametrize("row", WITH_BODY, ids=" ".join)
async def test_every_field_with_every_value(people: People, admin: Person, row: tuple[str, str]) -> None:
    org = await people.organization()
    body = valid_body(WITH_BODY[row])
    wrong = []
    for name, value in itertools.product(body, [*STRINGS, *OTHERS]):
        content = json.dumps({**body, name: value}).encode()
        answer = await send(people, row, content, admin, org=str(org.id))
        if not is_envelope(answer):
            wrong.append(f"{name} = {str(value)[:40]!r}: {answer.status_code} {answer.text[:200]}")
    assert wrong == []


async def test_bodies_that_are_no_records(people: People, admin: Person) -> None:
    org = await people.organization()
    for row, content in itertools.product(WITH_BODY, RAW):
        bad = WITH_BODY[row].bad_input
        answer = await send(people, row, content, admin, org=str(org.id))
        assert is_envelope(answer), (content[:40], answer.text)
        if not (row[0] == "PATCH" and answer.is_success):
            assert (answer.status_code, answer.json()["code"]) == (400, bad), (content[:40], answer.text)
    for row, kind in itertools.product(WITH_BODY, ("text/plain", "application/x-www-form-urlencoded", "", "\xe9")):
        answer = await send(people, row, b"{}", admin, org=str(org.id), kind=kind)
        assert (answer.status_code, answer.json()["code"]) == (400, WITH_BODY[row].bad_input), kind


async def test_a_mebibyte_is_read_and_a_byte_more_is_not(people: People, admin: Person) -> None:
    org = await people.organization()
    exactly = b'{"x":"' + b"x" * (1024 * 1024 - 8) + b'"}'
    assert len(exactly) == 1024 * 1024
    for row in WITH_BODY:
        assert (await send(people, row, exactly, admin, org=str(org.id))).status_code == 400
        answer = await send(people, row, exactly + b" ", admin, org=str(org.id))
        assert (answer.status_code, answer.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert is_envelope(answer)


async def send(
    people: People, row: tuple[str, str], content: bytes, who: Person, *, org: str, kind: str = "application/json"
) -> httpx.Response:
    headers = {**who.headers, "x-org-id": org, "content-type": kind.encode("latin-1")}  # type: ignore[dict-item]
    url = f"/api/v1{path_of(row, orgId=org)}"
    answer = await people.service.client.request(row[0], url, content=content, headers=headers)
    people.service.client.cookies.clear()
    return answer


IDS: Final = ["5", "%00", "%FF", "..%2F..", "'", "x" * 5000, "00000000-0000-0000-0000-00000000000g", "%C3%28"]


async def test_ids_in_paths(people: People, admin: Person) -> None:
    org = await people.organization()
    for (row, endpoint), value in itertools.product(ROWS.items(), IDS):
        for name in [parameter.name for parameter in endpoint.path_parameters]:
            path = path_of(row, **{"orgId": str(org.id), name: value})
            body = valid_body(endpoint) if endpoint.body_type is not None else None
            answer = await people.call(row[0], path, body, who=admin, org=org.id)
            assert is_envelope(answer), (row, answer.text)
            assert answer.status_code in (400, 404)


def cursor(*key: object) -> str:
    """A cursor as the lists issue them, with this key."""
    return "cursor=" + base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


QUERIES: Final = [
    "page=0",
    "page=1e3",
    "page=٣",
    "page=1&page=2",
    "limit=101",
    "limit=",
    "page=9007199254740991",
    "x=1",
    "%00=%00",
    "%FF",
    "&" * 5000,
    "cursor=%00",
    cursor(),
    cursor(UNKNOWN_ID),
    cursor("0001-01-01T00:00:00+23:59", UNKNOWN_ID),
    cursor("9999-12-31T23:59:59.999999-23:59", UNKNOWN_ID),
    cursor("9999-12-31T23:59:59.999999-23:59", UNKNOWN_ID, "\ufeff\U0001f4a5"),
    cursor("2026-01-01T00:00:00Z", UNKNOWN_ID, "\x00"),
]


async def test_queries(people: People, admin: Person) -> None:
    org = await people.organization()
    for (row, endpoint), query in itertools.product(ROWS.items(), QUERIES):
        if endpoint.query_type is not None:
            answer = await people.call(row[0], f"{path_of(row, orgId=str(org.id))}?{query}", who=admin, org=org.id)
            assert is_envelope(answer), (row, answer.text)


CREDENTIALS: Final = [b"Bearer", b"Bearer ", b"bearer x.y.z", b"Basic eDp5", b"Bearer \xff", b"Bearer " + b"x" * 7000]


async def test_credentials(people: People) -> None:
    for (row, endpoint), content in itertools.product(ROWS.items(), CREDENTIALS):
        body = valid_body(endpoint) if endpoint.body_type is not None else None
        answer = await people.service.client.request(
            row[0],
            f"/api/v1{path_of(row)}",
            json=body,
            headers={"authorization": content},  # type: ignore[dict-item]
        )
        people.service.client.cookies.clear()
        assert is_envelope(answer), (row, answer.text)
        if endpoint.caller.kind.value != "public":
            assert answer.status_code == 401, row


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    with served(database_url, home) as running:
        yield running


REQUESTS: Final = [
    b"POST /api/v1/auth/login HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}",
    b"POST /api/v1/auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: -1\r\n\r\n{}",
    b"POST /api/v1/auth/login HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET /api/v1/auth/me HTTP/1.1\r\nhost: x\r\ncookie: gridfleet_session=\xff\xfe; \x01=\r\n\r\n",
    b"POST /api/v1/auth/refresh HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\ncookie: gridfleet_refresh="
    + b"%" * 4000
    + b"\r\n\r\n",
    b"GET /api/v1/auth/confirm-accept?token=\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /api/v1/users/%2e%2e/%2e%2e HTTP/1.1\r\nhost: x\r\n\r\n",
    b"BREW /api/v1/auth/login HTTP/1.1\r\nhost: x\r\n\r\n",
]


def test_bytes_on_the_wire(service: Served) -> None:
    for request_text in REQUESTS:
        with socket.create_connection(("127.0.0.1", service.settings.http_port), timeout=10) as connection:
            connection.sendall(request_text)
            first = connection.recv(65536)
        assert not first.startswith(b"HTTP/1.1 5"), first
    assert httpx.get(f"{service.url}/api/v1/health/live").status_code == 200
