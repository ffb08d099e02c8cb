"""Pages of other origins: which may read responses, and that cookies are never allowed."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest
from pydantic import ValidationError

from gridfleet.api.http import Call, Message, endpoint, public
from gridfleet.kernel.settings import Settings

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]

OURS = "https://app.example.com"
PATH = "/api/v1/things"


def declare() -> None:
    @endpoint("GET", PATH, caller=public(), codes=())
    async def get_things() -> Message:
        return Message("things")

    @endpoint("POST", PATH, caller=public(), codes=())
    async def make_thing(call: Call) -> Message:
        call.set_cookie("a", "b", path="/", max_age=60)
        return Message("made")

    @endpoint("GET", "/docs", caller=public(), codes=())
    async def get_docs() -> Message:
        return Message("docs")


def preflight(method: str = "POST", origin: str = OURS) -> dict[str, str]:
    return {"origin": origin, "access-control-request-method": method, "access-control-request-headers": "x-org-id"}


def of_cors(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


async def test_without_the_setting_no_page_of_another_origin_may(browse: Browse) -> None:
    declare()
    async with browse() as client:
        for answer in (await client.get(PATH, headers={"origin": OURS}), await client.options(PATH, headers=preflight())):
            assert of_cors(answer) == {}
            assert "origin" not in answer.headers.get("vary", "")


async def test_pages_of_named_origins_may_read_responses_and_errors(browse: Browse) -> None:
    declare()
    async with browse(cors_origins=f"{OURS}, http://localhost:5173") as client:
        for origin in (OURS, "http://localhost:5173"):
            for answer in (
                await client.get(PATH, headers={"origin": origin}),
                await client.post(PATH, headers={"origin": origin}),
                await client.get("/api/v1/nowhere", headers={"origin": origin}),
                await client.delete(PATH, headers={"origin": origin}),
            ):
                assert of_cors(answer) == {
                    "access-control-allow-origin": origin,
                    "access-control-expose-headers": "allow, content-disposition, etag, idempotency-replayed, retry-after,"
                    " x-request-id",
                }
                assert "origin" in answer.headers["vary"]


async def test_a_preflight_names_the_methods_of_the_path(browse: Browse) -> None:
    declare()
    async with browse(cors_origins=OURS) as client:
        answer = await client.options(PATH, headers=preflight())
    assert answer.status_code == 204
    allowed = of_cors(answer)
    assert allowed["access-control-allow-methods"] == "GET, HEAD, OPTIONS, POST"
    assert {"authorization", "x-org-id", "x-api-key", "content-type"} <= set(
        allowed["access-control-allow-headers"].split(", ")
    )
    assert allowed["access-control-max-age"] == "600"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com",
        "https://app.example.com.evil.example.com",
        "https://app.example.com/",
        "https://APP.example.com",
        "http://app.example.com",
        "https://app.example.com:444",
        f"{OURS} https://evil.example.com",
        "null",
        "*",
        "",
        "x" * 60_000,
    ],
)
async def test_other_origins_get_no_permission(browse: Browse, origin: str) -> None:
    declare()
    async with browse(cors_origins=OURS) as client:
        for answer in (
            await client.get(PATH, headers={"origin": origin}),
            await client.options(PATH, headers=preflight(origin=origin)),
        ):
            assert of_cors(answer) == {}
            assert "origin" in answer.headers["vary"], "a cache must not give the response to another origin"


async def test_every_origin_is_allowed_by_a_star_and_never_with_cookies(browse: Browse) -> None:
    declare()
    async with browse(cors_origins="*") as client:
        for origin in (OURS, "null", "https://anyone.example"):
            for answer in (
                await client.post(PATH, headers={"origin": origin, "cookie": "gridfleet_session=x"}),
                await client.options(PATH, headers=preflight(origin=origin)),
            ):
                assert answer.headers["access-control-allow-origin"] == "*"
                assert "access-control-allow-credentials" not in answer.headers
    async with browse(cors_origins=OURS) as client:
        assert "access-control-allow-credentials" not in (await client.options(PATH, headers=preflight())).headers


async def test_pages_beside_the_api_have_no_permissions(browse: Browse) -> None:
    declare()
    async with browse(cors_origins="*") as client:
        assert of_cors(await client.get("/docs", headers={"origin": OURS})) == {}


@pytest.mark.parametrize(
    "origins",
    ["app.example.com", "https://app.example.com/", "https://a.example/path", "*, https://a.example", "https://*.example.com",
     "https://A.example", "ftp://a.example", "null", "https://user@a.example"],
)  # fmt: skip
def test_what_is_no_origin_is_refused_at_the_start(origins: str) -> None:
    with pytest.raises(ValidationError, match="must be"):
        Settings(cors_origins=origins)  # type: ignore[arg-type]


def test_a_list_of_origins_is_read() -> None:
    assert Settings(cors_origins=" https://a.example , http://[::1]:8080,").cors_origins == (  # type: ignore[arg-type]
        "https://a.example",
        "http://[::1]:8080",
    )
