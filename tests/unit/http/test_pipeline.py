"""What every endpoint does before and after its handler, seen from the client."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any
from uuid import UUID

import httpx
import msgspec
import pytest
from pydantic import Field

from gridfleet.api.http import (
    Call,
    Input,
    Message,
    PageQuery,
    S,
    Stream,
    bodies,
    endpoint,
    internal,
    org_member,
    public,
    super_admin,
)
from gridfleet.api.http.endpoint import ENDPOINTS, Endpoint
from gridfleet.api.http.errors import UndeclaredCode
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.errors import CodedError, Forbidden, TooManyRequests
from gridfleet.kernel.pagination import Page, Paging

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]

ENVELOPE = {"statusCode", "error", "message", "code", "details"}
SOME_ID = "0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d"


class Thing(msgspec.Struct, frozen=True, rename="camel"):
    name: Annotated[str, msgspec.Meta(max_length=5)]
    made_at: datetime | None = None
    parts: list["Thing"] = []


class ThingInput(Input):
    name: Annotated[str, Field(max_length=5)]
    made_at: datetime | None = None
    parts: list["ThingInput"] = []

    @property
    def thing(self) -> Thing:
        return Thing(self.name, self.made_at, [part.thing for part in self.parts])


def declare_things(**options: Any) -> None:
    @endpoint("POST", "/api/v1/things/{thingId}", caller=public(), bad_path_id=options["codes"][0], **options)
    async def change(call: Call, thing_id: UUID, query: PageQuery, body: ThingInput) -> Thing:
        """Changes a thing."""
        return body.thing


async def test_unknown_routes_answer_not_found(browse: Browse) -> None:
    declare_things(codes=("INVALID_UUID",))
    async with browse() as client:
        for method, path in [
            ("GET", "/"),
            ("GET", f"/api/v1/things/{SOME_ID}/parts"),
            ("BREW", "/"),
            ("OPTIONS", "/api/v1/things"),
        ]:
            answer = await client.request(method, path)
            assert answer.status_code == 404
            assert answer.json() == {
                "statusCode": 404,
                "error": "Not Found",
                "message": "Not found.",
                "code": "NOT_FOUND",
                "details": [],
            }
            assert UUID(answer.headers["x-request-id"]).version == 7


async def test_the_path_id_comes_before_query_and_body_which_come_together(browse: Browse) -> None:
    declare_things(codes=("INVALID_UUID", "VALIDATION_ERROR"))
    async with browse() as client:
        for text in ("5", "%7B%7D", "{thingId}"):
            bad_id = await client.post(f"/api/v1/things/{text}?page=0", json={})
            assert (bad_id.json()["code"], bad_id.json()["details"]) == ("INVALID_UUID", ["thingId: must be a UUID"])
        bad_rest = await client.post(f"/api/v1/things/{SOME_ID}?page=0", json={})
        assert bad_rest.json()["code"] == "VALIDATION_ERROR"
        assert bad_rest.json()["details"] == ["page: must be an integer >= 1 and <= 1000", "name: is required"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"codes": ("VALIDATION_ERROR", "BAD_REQUEST")}, "VALIDATION_ERROR"),
        ({"codes": ("BAD_REQUEST",)}, "BAD_REQUEST"),
        ({"codes": ("INVALID_UUID",)}, "INVALID_UUID"),
        (
            {"codes": ("COMMAND_ACTION_NOT_IN_TEMPLATE",), "bad_input": "COMMAND_ACTION_NOT_IN_TEMPLATE"},
            "COMMAND_ACTION_NOT_IN_TEMPLATE",
        ),
    ],
)
async def test_bad_input_has_the_rows_own_code(browse: Browse, options: dict[str, Any], code: str) -> None:
    declare_things(**options)
    async with browse() as client:
        answer = await client.post(f"/api/v1/things/{SOME_ID}", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == code
    assert answer.json().keys() == ENVELOPE


async def test_the_body_must_be_announced_as_json(browse: Browse) -> None:
    declare_things(codes=("VALIDATION_ERROR",))
    async with browse() as client:
        for kind, status in [
            ("text/plain", 400),
            ("", 400),
            ("application/json; charset=utf-8", 200),
            ("APPLICATION/JSON", 200),
        ]:
            answer = await client.post(f"/api/v1/things/{SOME_ID}", content=b'{"name":"a"}', headers={"content-type": kind})
            assert answer.status_code == status
        empty = await client.post(f"/api/v1/things/{SOME_ID}")
        assert empty.json()["details"] == ["body: must not be empty"]


async def test_large_bodies_of_others_delay_no_small_one(browse: Browse) -> None:
    """A mebibyte of JSON takes 0.1 s. Anyone can send it to the login, before its limit of calls applies."""
    declare_things(codes=("VALIDATION_ERROR",))
    large = json.dumps({f"k{number}": 1 for number in range(80_000)}).encode()
    answered: list[str] = []
    async with browse() as client:

        async def send(name: str, body: bytes) -> None:
            answer = await client.post(f"/api/v1/things/{SOME_ID}", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 400
            answered.append(name)

        await asyncio.gather(*(send("large", large) for _ in range(5)), send("small", b"{}"))
    assert answered == ["small", *["large"] * 5]


async def test_senders_of_large_bodies_take_turns(browse: Browse) -> None:
    declare_things(codes=("VALIDATION_ERROR",))
    large = json.dumps({f"k{number}": 1 for number in range(80_000)}).encode()
    answered: list[str] = []
    async with browse(trusted_proxies="127.0.0.1") as client:

        async def send(sender: str) -> None:
            headers = {"content-type": "application/json", "x-forwarded-for": sender}
            answer = await client.post(f"/api/v1/things/{SOME_ID}", content=large, headers=headers)
            assert answer.status_code == 400
            answered.append(sender)

        await asyncio.gather(*(send("192.0.2.1") for _ in range(6)), send("192.0.2.2"))
    assert "192.0.2.2" in answered[:3]


async def test_bodies_that_never_end_hold_a_bounded_memory(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can begin a body of a mebibyte on each of thousands of connections, and send the rest after half a minute."""
    monkeypatch.setattr(bodies, "READ_SECONDS", 600)  # a busy machine may need more than the usual ones for this test
    declare_things(codes=("VALIDATION_ERROR",))
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b" " * (1024 * 1024 - 100)
        await ended.wait()

    async with browse(trusted_proxies="127.0.0.1") as client:

        async def send(sender: str, body: Any) -> int:
            headers = {"content-type": "application/json", "x-forwarded-for": sender}
            return (await client.post(f"/api/v1/things/{SOME_ID}", content=body, headers=headers)).status_code

        hostile = [asyncio.create_task(send("192.0.2.1", endless())) for _ in range(40)]
        while sum(task.done() for task in hostile) < 8:
            await asyncio.sleep(0.01)
        whole = b'{"name":"a"}' + b" " * 500_000
        assert await send("192.0.2.1", whole) == 429
        assert await send("192.0.2.1", b'{"name":"a"}') == 200
        assert await send("192.0.2.2", whole) == 200
        ended.set()
        statuses = await asyncio.gather(*hostile)
        assert (statuses.count(429), statuses.count(400)) == (8, 32)
        assert await send("192.0.2.1", whole) == 200


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_one_mebibyte_is_too_large(browse: Browse, chunked: bool) -> None:
    declare_things(codes=("VALIDATION_ERROR",))
    body = b'{"name":"a"}' + b" " * (1024 * 1024 - 12)

    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(content), 100_000):
            yield content[start : start + 100_000]

    async with browse() as client:
        for content, status in [(body, 200), (body + b" ", 413), (body * 3, 413)]:
            sent = pieces(content) if chunked else content
            answer = await client.post(f"/api/v1/things/{SOME_ID}", content=sent, headers={"content-type": "application/json"})
            assert answer.status_code == status
    assert (answer.json()["code"], answer.json()["error"], answer.json()["statusCode"]) == ("PAYLOAD_TOO_LARGE", "Error", 413)


async def test_an_endpoint_without_a_body_takes_no_large_one_either(browse: Browse) -> None:
    @endpoint("POST", "/api/v1/act", caller=public(), codes=())
    async def act() -> Message:
        return Message("done")

    async with browse() as client:
        assert (await client.post("/api/v1/act", content=b"anything")).status_code == 200
        assert (await client.post("/api/v1/act", content=b"x" * (1024 * 1024 + 1))).json()["code"] == "PAYLOAD_TOO_LARGE"


async def test_times_are_utc_with_milliseconds_and_absent_values_are_null(browse: Browse) -> None:
    declare_things(codes=("VALIDATION_ERROR",))
    async with browse() as client:
        sent = {"name": " a ", "madeAt": "2026-01-01T01:00:00.123999+01:00", "parts": [{"name": "b"}]}
        answer = await client.post(f"/api/v1/things/{SOME_ID}", json=sent)
    assert answer.text == ('{"name":"a","madeAt":"2026-01-01T00:00:00.123Z","parts":[{"name":"b","madeAt":null,"parts":[]}]}')


async def test_pages_unions_and_files(browse: Browse) -> None:
    moment = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))

    @endpoint("GET", "/api/v1/page", caller=public(), codes=())
    async def page() -> Page[Thing]:
        return Page.of([Thing("a", moment)], 41, Paging(2, 20))

    @endpoint("GET", "/api/v1/file", caller=public(), codes=())
    async def file(call: Call) -> Thing:
        call.no_store()
        call.download_as('Ä "1".json')
        return Thing("a", moment.astimezone(UTC))

    @endpoint("DELETE", "/api/v1/nothing", caller=public(), codes=(), success=204)
    async def nothing() -> None:
        return None

    async with browse() as client:
        assert (await client.get("/api/v1/page")).json() == {
            "data": [{"name": "a", "madeAt": "2026-01-01T00:00:00.000Z", "parts": []}],
            "meta": {"page": 2, "limit": 20, "total": 41, "totalPages": 3},
        }
        download = await client.get("/api/v1/file")
        assert download.json()["madeAt"] == "2026-01-01T00:00:00.000Z"
        assert (
            download.headers["content-disposition"]
            == "attachment; filename=\"_ _1_.json\"; filename*=UTF-8''%C3%84%20%221%22.json"
        )
        assert download.headers["cache-control"] == "no-store"
        empty = await client.delete("/api/v1/nothing")
        assert (empty.status_code, empty.content) == (204, b"")


async def test_every_answer_may_not_be_framed_or_sniffed(browse: Browse) -> None:
    declare_things(codes=("VALIDATION_ERROR",))
    async with browse(public_url="https://fleet.example.com") as client:
        for answer in [await client.get("/"), await client.post(f"/api/v1/things/{SOME_ID}", json={"name": "a"})]:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["strict-transport-security"] == "max-age=31536000"


async def test_a_well_formed_request_id_is_kept(browse: Browse) -> None:
    async with browse() as client:
        assert (await client.get("/", headers={"x-request-id": SOME_ID})).headers["x-request-id"] == SOME_ID
        assert (await client.get("/", headers={"x-request-id": "<script>"})).headers["x-request-id"] != "<script>"


async def test_a_stream_that_fails_before_its_first_piece_answers_an_envelope(browse: Browse) -> None:
    async def pieces(fails: bool) -> AsyncIterator[bytes]:
        if fails:
            raise Forbidden
        yield b"[1,"
        yield b"2]"

    @endpoint("GET", "/api/v1/stream/{how}", caller=public(), codes=("FORBIDDEN",), response=list[int])
    async def stream(how: str) -> Stream:
        return Stream("application/json", pieces(how == "bad"))

    async with browse() as client:
        assert (await client.get("/api/v1/stream/good")).json() == [1, 2]
        assert (await client.get("/api/v1/stream/bad")).json()["code"] == "FORBIDDEN"


async def test_limits_may_strike_everywhere_and_say_when_to_come_back(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/limited", caller=public(), codes=())
    async def limited() -> Message:
        raise TooManyRequests(7)

    async with browse() as client:
        answer = await client.get("/api/v1/limited")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["error"]) == (429, "7", "Too Many Requests")


async def test_an_undeclared_code_is_a_bug(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/bug", caller=public(), codes=("NOT_FOUND",))
    async def bug() -> Message:
        raise Forbidden

    async with browse() as client:
        with pytest.raises(UndeclaredCode, match="GET /api/v1/bug answers FORBIDDEN"):
            await client.get("/api/v1/bug")
    async with browse(strict=False) as client:
        assert (await client.get("/api/v1/bug")).json()["code"] == "INTERNAL_SERVER_ERROR"


async def test_a_code_with_two_statuses_keeps_the_one_it_was_raised_with(browse: Browse) -> None:
    class Malformed(CodedError):
        code = "REFRESH_TOKEN_INVALID"
        message = "No cookie."

        @property
        def status(self) -> int:
            return 400

    @endpoint("GET", "/api/v1/twofold", caller=public(), codes=("REFRESH_TOKEN_INVALID",))
    async def twofold() -> Message:
        raise Malformed

    async with browse() as client:
        answer = await client.get("/api/v1/twofold")
    assert (answer.status_code, answer.json()["statusCode"], answer.json()["error"]) == (400, 400, "Bad Request")


async def test_nothing_of_a_failure_leaks(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/crash", caller=public(), codes=())
    async def crash() -> Message:
        raise RuntimeError("password hunter2 in /etc/secret")

    async with browse() as client:
        answer = await client.get("/api/v1/crash")
    assert answer.status_code == 500
    assert answer.json()["code"] == "INTERNAL_SERVER_ERROR"
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text


async def test_internal_endpoints_ask_for_the_secret_in_production_only(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/inside", caller=internal(), codes=("FORBIDDEN",))
    async def inside() -> Message:
        return Message("in")

    async with browse() as client:
        assert (await client.get("/api/v1/inside")).status_code == 200
    async with browse(environment="production", internal_secret="s3cret") as client:
        assert (await client.get("/api/v1/inside")).json()["code"] == "FORBIDDEN"
        assert (await client.get("/api/v1/inside", headers={"x-internal-auth": "s3cre"})).status_code == 403
        assert (await client.get("/api/v1/inside", headers={"x-internal-auth": "s3cret"})).status_code == 200


async def test_cookies_are_http_only_and_secure_behind_https(browse: Browse) -> None:
    @endpoint("POST", "/api/v1/cookie", caller=public(), codes=())
    async def cookie(call: Call) -> Message:
        call.set_cookie("a", "b", path="/api", max_age=60)
        return Message(json.dumps(dict(call.cookies)))

    async with browse() as client:
        answer = await client.post("/api/v1/cookie", headers={"cookie": 'x=1; y="2"; odd {"a"}; x=3; =; z='})
        assert answer.headers["set-cookie"] == "a=b; Path=/api; Max-Age=60; HttpOnly; SameSite=Strict"
        assert json.loads(answer.json()["message"]) == {"x": "1", "y": "2", "": "", "z": ""}
    async with browse(public_url="https://fleet.example.com") as client:
        assert (await client.post("/api/v1/cookie")).headers["set-cookie"].endswith("; Secure")


def test_a_contradictory_declaration_fails_at_import(only_own_endpoints: None) -> None:
    def declare(path: str, handler: Any, **options: Any) -> None:
        endpoint("GET", path, **{"caller": public(), "codes": (), **options})(handler)

    async def wants_too_much(other: int) -> Message: ...
    async def takes_id(id: UUID) -> Message: ...
    async def wants_organisation(org: OrgScope) -> Message: ...
    async def wants_caller(caller: UserCaller) -> Message: ...
    async def wants_struct(body: Thing) -> Message: ...
    async def says_nothing(): ...  # type: ignore[no-untyped-def]
    async def fine() -> Message: ...

    for path, handler, options, match in [
        ("/a", wants_too_much, {}, "nothing provides other"),
        ("/a/{id}", takes_id, {}, "may answer {'VALIDATION_ERROR'}"),
        ("/a/{other}", takes_id, {}, "must be a UUID or str argument"),
        ("/a", wants_organisation, {}, "only org_member"),
        ("/a", wants_caller, {}, "no user is logged in"),
        ("/a", wants_struct, {}, "body must be an Input"),
        ("/a", says_nothing, {}, "type is missing"),
        ("/a", fine, {"codes": ("NO_SUCH_CODE",)}, "unknown codes"),
        ("/a/{id}", takes_id, {"bad_path_id": "INVALID_UUID"}, "may answer {'INVALID_UUID'}"),
        ("/a", fine, {"caller": super_admin()}, "which codes does not list"),
    ]:
        with pytest.raises(TypeError, match=match):
            declare(path, handler, **options)
    declare("/a", fine)
    with pytest.raises(TypeError, match="registered twice"):
        declare("/a", fine)
    declare("/b/{id}", takes_id, codes=("INVALID_UUID", *S), caller=org_member(OrgRole.VIEWER))
    declared: Endpoint = ENDPOINTS["GET", "/b/{id}"]
    assert (declared.bad_path_id, declared.bad_input) == ("INVALID_UUID", "INVALID_UUID")
    assert not declared.creates
