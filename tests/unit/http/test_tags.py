"""Responses with entity tags: what has not changed is not sent again. And the last page of a list that may be asked for."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from gridfleet.api.http import Message, PageQuery, endpoint, public
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


async def test_a_tagged_response_is_sent_once_while_it_is_unchanged(browse: Browse) -> None:
    texts = ["first " * 500]

    @endpoint("GET", "/api/v1/list", caller=public(), codes=(), tagged=True)
    async def get_list() -> Message:
        return Message(texts[-1])

    async with browse() as client:
        first = await client.get("/api/v1/list")
        tag = {"if-none-match": first.headers["etag"]}
        assert first.headers["cache-control"] == "private, no-cache"
        for given in (tag, {**tag, "accept-encoding": "gzip"}, {"if-none-match": f'"other", {tag["if-none-match"][2:]}'}):
            again = await client.get("/api/v1/list", headers=given)
            assert (again.status_code, again.content) == (304, b"")
            assert [again.headers[name] for name in ("etag", "cache-control", "vary")] == [
                first.headers[name] for name in ("etag", "cache-control", "vary")
            ]
        assert (await client.head("/api/v1/list", headers=tag)).status_code == 304
        texts.append("second")
        changed = await client.get("/api/v1/list", headers=tag)
        assert (changed.status_code, changed.json()["message"]) == (200, "second")
        assert changed.headers["etag"] != first.headers["etag"]
        for other in ("", '"', "W/", "x" * 60_000, '"a" "b"'):
            assert (await client.get("/api/v1/list", headers={"if-none-match": other})).status_code == 200


async def test_large_tagged_responses_have_a_tag_too(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/list", caller=public(), codes=(), tagged=True)
    async def get_list() -> Message:
        return Message("x" * 300_000)

    async with browse() as client:
        tag = (await client.get("/api/v1/list")).headers["etag"]
        assert (await client.get("/api/v1/list", headers={"if-none-match": tag})).status_code == 304


def test_only_a_get_has_a_tag(only_own_endpoints: None) -> None:
    with pytest.raises(TypeError, match="only a GET"):

        @endpoint("POST", "/api/v1/list", caller=public(), codes=(), tagged=True)
        async def make() -> Message:
            return Message("made")


def test_lists_that_seldom_change_have_tags() -> None:
    import_handlers()
    assert {endpoint.path for endpoint in ENDPOINTS.values() if endpoint.tagged} >= {
        "/api/v1/device-templates",
        "/api/v1/device-templates/{id}",
        "/api/v1/plant-groups",
        "/api/v1/fleet/places",
    }


async def test_a_page_beyond_the_last_that_may_be_asked_for_is_refused(browse: Browse) -> None:
    asked: list[int] = []

    @endpoint("GET", "/api/v1/list", caller=public(), codes=("VALIDATION_ERROR",))
    async def get_list(query: PageQuery) -> Message:
        asked.append(query.paging.offset)
        return Message("page")

    async with browse() as client:
        assert (await client.get("/api/v1/list?page=1000&limit=100")).status_code == 200
        for page in ("1001", "99999999999999999", "99999999999999999999"):
            refused = await client.get(f"/api/v1/list?page={page}")
            assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR")
            (complaint,) = refused.json()["details"]
            assert complaint.startswith("page: must be")
            assert "1000" in complaint
    assert asked == [99_900]
