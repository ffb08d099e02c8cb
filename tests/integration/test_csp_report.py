"""Browsers' reports: accepted without a login, kept as audit events, cut and cleaned, never in floods."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gridfleet.domains.audit.csp_reports import cleaned
from gridfleet.domains.audit.recorder import delete_old
from support.clients.people import People, refused
from support.servers.api_service import api_service

URL = "/api/v1/csp-report"
REPORT = {
    "document-uri": "https://fleet.example.com/plants",
    "referrer": "",
    "violated-directive": "script-src-elem",
    "effective-directive": "script-src-elem",
    "original-policy": "default-src 'none'; report-uri /api/v1/csp-report",
    "disposition": "enforce",
    "blocked-uri": "https://evil.example.com/x.js",
    "line-number": 7,
    "column-number": 1,
    "source-file": "https://fleet.example.com/page.js",
    "status-code": 200,
    "script-sample": "",
}


@pytest.fixture
async def people(database_url: str, home: Path) -> AsyncIterator[People]:
    settings = {"csp_reports_per_address_per_minute": 20, "csp_reports_per_minute": 25, "trusted_proxies": "127.0.0.1/32"}
    async with api_service(database_url, home, **settings) as running:
        yield People(running)


async def report(people: People, body: Any, content_type: str = "application/csp-report", ip: str = "203.0.113.7") -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": content_type, "x-forwarded-for": ip, "user-agent": "Browser/1"}
    return await people.service.client.post(URL, content=content, headers=headers)


async def kept(people: People) -> list[dict[str, Any]]:
    return [event for event in await people.events() if event["event"] == "csp.reported"]


@pytest.mark.parametrize("content_type", ["application/csp-report", "application/json", "application/json; charset=utf-8"])
async def test_a_report_becomes_an_audit_event_of_nobodys(people: People, content_type: str) -> None:
    answer = await report(people, {"csp-report": REPORT, "age": 1, "type": "x"}, content_type)
    assert (answer.status_code, answer.content) == (204, b"")
    [event] = await kept(people)
    assert event["details"] == REPORT | {"user-agent": "Browser/1"}
    assert (event["organizationId"], event["actorType"], event["actorId"], event["ip"]) == (
        None,
        "ANONYMOUS",
        None,
        "203.0.113.7",
    )


async def test_a_body_that_is_no_report_is_refused(people: People) -> None:
    for body in (b"", b"{", b"[]", b"null", b"{}", b"\xff", b'{"csp-report":1}', b'{"csp-report":null}', b'{"csp-report":[]}'):
        refused(await report(people, body), 400, "BAD_REQUEST")
    refused(await report(people, {"csp-report": {"referrer": "a\0b"}}), 400, "BAD_REQUEST")
    refused(await report(people, {"csp-report": REPORT}, "text/plain"), 400, "BAD_REQUEST")
    assert await kept(people) == []


async def test_eight_kilobytes_are_taken_and_no_byte_more(people: People) -> None:
    start, end = b'{"csp-report":{"script-sample":"', b'"}}'
    full = start + b"x" * (8192 - len(start) - len(end)) + end
    assert (await report(people, full)).status_code == 204
    refused(await report(people, full + b" "), 413, "PAYLOAD_TOO_LARGE")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(90):
            yield b" " * 100

    answer = await people.service.client.post(URL, content=chunks(), headers={"content-type": "application/json"})
    refused(answer, 413, "PAYLOAD_TOO_LARGE")
    [event] = await kept(people)
    assert event["details"]["script-sample"] == "x" * 40


async def test_a_flood_is_stopped_by_address_and_altogether(people: People) -> None:
    statuses = [(await report(people, {"csp-report": REPORT})).status_code for _ in range(22)]
    assert statuses == [204] * 20 + [429] * 2
    others = [(await report(people, {"csp-report": REPORT}, ip=f"198.51.100.{n}")).status_code for n in range(7)]
    assert others == [204] * 5 + [429] * 2
    answer = await report(people, {"csp-report": REPORT}, ip="198.51.100.99")
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert len(await kept(people)) == 25


async def test_reports_are_forgotten_sooner_than_other_events(people: People) -> None:
    await report(people, {"csp-report": REPORT})
    await people.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_unchanged")
    await people.execute("UPDATE audit_event SET created_at = created_at - interval '31 days'")
    await report(people, {"csp-report": {}})
    before = await people.execute("SELECT count(*) FROM audit_event")
    await delete_old(people.service.state.database, 730, 30)
    assert [event["details"] for event in await kept(people)] == [{"user-agent": "Browser/1"}]
    after = await people.execute("SELECT count(*) FROM audit_event WHERE event <> 'csp.reported'")
    assert after[0][0] >= before[0][0] - 2


async def test_an_event_that_cannot_be_stored_is_our_failure(people: People) -> None:
    await people.execute("ALTER TABLE audit_event RENAME TO elsewhere")
    refused(await report(people, {"csp-report": REPORT}), 500, "INTERNAL_SERVER_ERROR")


async def test_our_own_pages_report_here(people: People) -> None:
    for path in ("/docs", "/account/invitation"):
        policy = (await people.service.client.get(path)).headers["content-security-policy"]
        assert f"report-uri {URL}" in policy.split("; ")


def test_nothing_secret_or_endless_is_kept() -> None:
    found = cleaned(
        {
            "document-uri": "https://user:secret@fleet.example.com/a?token=secret#secret",
            "referrer": "https://x.example.com/" + "y" * 9000,
            "blocked-uri": "data:text/html,secret",
            "source-file": "inline",
            "original-policy": "p" * 9000,
            "violated-directive": 7,
            "line-number": -1,
            "column-number": 10**30,
            "status-code": True,
            "unknown": "secret",
        }
    )
    assert found["document-uri"] == "https://fleet.example.com/a"
    assert (found["blocked-uri"], found["source-file"]) == ("data", "inline")
    assert len(str(found["referrer"])) == 500
    assert len(str(found["original-policy"])) == 1000
    assert "secret" not in str(found)
    assert found.keys() == {"document-uri", "referrer", "blocked-uri", "source-file", "original-policy"}
    assert cleaned({"document-uri": "http://[::1"}) == {"document-uri": "not an address"}
