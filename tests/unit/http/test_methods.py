"""What a path answers to methods beside those that its endpoints declare: HEAD, OPTIONS, and all others."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from gridfleet.api.http import Asset, Call, Message, Stream, endpoint, public
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


def declare_thing() -> None:
    @endpoint("GET", "/api/v1/things/{name}", caller=public(), codes=("NOT_FOUND",))
    async def get_thing(call: Call, name: str) -> Message:
        call.set_header("x-thing", name)
        return Message(name)

    @endpoint("DELETE", "/api/v1/things/{thing}", caller=public(), codes=())
    async def delete_thing(thing: str) -> Message:
        return Message(f"{thing} deleted")


async def test_head_answers_the_headers_of_get_without_its_body(browse: Browse) -> None:
    declare_thing()
    async with browse() as client:
        got, head = await client.get("/api/v1/things/lamp"), await client.head("/api/v1/things/lamp")
    assert got.content == b'{"message":"lamp"}'
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(got.content))
    differ = {"x-request-id", "content-length"}
    assert {k: v for k, v in head.headers.items() if k not in differ} == {
        k: v for k, v in got.headers.items() if k not in differ
    }


async def test_head_of_an_error_has_its_status_and_no_body(browse: Browse) -> None:
    declare_thing()
    async with browse() as client:
        for path in ("/api/v1/nothing", "/"):
            assert ((head := await client.head(path)).status_code, head.content) == (404, b"")


async def test_head_of_a_stream_reads_no_more_than_its_first_piece_and_closes_it(browse: Browse) -> None:
    read: list[int] = []

    async def pieces() -> AsyncIterator[bytes]:
        try:
            for number in range(5):
                read.append(number)
                yield b"x"
        finally:
            read.append(-1)

    @endpoint("GET", "/api/v1/stream", caller=public(), codes=(), response=str)
    async def stream() -> Stream:
        return Stream("text/plain", pieces())

    async with browse() as client:
        head = await client.head("/api/v1/stream")
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "text/plain")
    assert read == [0, -1]


async def test_head_with_an_unchanged_entity_tag_is_not_modified(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/page", caller=public(), codes=(), response=str)
    async def page() -> Asset:
        return Asset.tagged("text/plain", b"page")

    async with browse() as client:
        tag = (await client.head("/api/v1/page")).headers["etag"]
        unchanged = await client.head("/api/v1/page", headers={"if-none-match": tag})
    assert (unchanged.status_code, "content-length" in unchanged.headers) == (304, False)


async def test_head_is_refused_where_get_has_an_effect(browse: Browse) -> None:
    used: list[str] = []

    @endpoint("GET", "/api/v1/link", caller=public(), codes=(), has_effect=True)
    async def use_link() -> Message:
        used.append("link")
        return Message("used")

    async with browse() as client:
        refused = await client.head("/api/v1/link")
        assert (refused.status_code, refused.headers["allow"], used) == (405, "GET, OPTIONS", [])
        assert (await client.get("/api/v1/link")).status_code == 200
    assert used == ["link"]


def test_only_a_get_is_declared_to_have_an_effect(only_own_endpoints: None) -> None:
    with pytest.raises(TypeError, match="only a GET"):

        @endpoint("POST", "/api/v1/link", caller=public(), codes=(), has_effect=True)
        async def use_link() -> Message:
            return Message("used")


def test_links_that_work_once_are_declared_to_have_an_effect() -> None:
    import_handlers()
    assert {endpoint.path for endpoint in ENDPOINTS.values() if endpoint.has_effect} == {
        "/api/v1/auth/confirm-accept",
        "/api/v1/plants/{id}/provision/download",
    }


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "TRACE", "CONNECT", "BREW", "PROPFIND"])
async def test_other_methods_are_refused_with_those_that_are_allowed(browse: Browse, method: str) -> None:
    declare_thing()
    async with browse() as client:
        refused = await client.request(method, "/api/v1/things/lamp")
        unknown = await client.request(method, "/api/v1/things")
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS")
    assert refused.json() == {
        "statusCode": 405,
        "error": "Method Not Allowed",
        "message": "The path has no such method.",
        "code": "METHOD_NOT_ALLOWED",
        "details": [],
    }
    assert (unknown.status_code, unknown.json()["code"], "allow" in unknown.headers) == (404, "NOT_FOUND", False)


async def test_options_names_the_methods_of_a_path_without_a_login(browse: Browse) -> None:
    declare_thing()
    async with browse() as client:
        asked = await client.options("/api/v1/things/lamp/")
        assert (asked.status_code, asked.content) == (204, b"")
        assert asked.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"
        assert asked.headers["x-content-type-options"] == "nosniff"
        assert "content-type" not in asked.headers
        for path in ("/api/v1/things", "/", "/api", "/api/v1/things/lamp/bulb"):
            assert (await client.options(path)).json()["code"] == "NOT_FOUND"


async def test_methods_of_a_path_are_those_of_its_endpoints(browse: Browse) -> None:
    """Also where the names of path parameters differ, and where a fixed path lies beside a parameter."""
    declare_thing()

    @endpoint("POST", "/api/v1/things/import", caller=public(), codes=())
    async def import_things() -> Message:
        return Message("imported")

    expected: dict[str, Any] = {"lamp": "DELETE, GET, HEAD, OPTIONS", "import": "OPTIONS, POST"}
    async with browse() as client:
        for name, allowed in expected.items():
            assert (await client.options(f"/api/v1/things/{name}")).headers["allow"] == allowed
