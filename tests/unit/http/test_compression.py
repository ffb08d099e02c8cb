"""Compressed responses: for whom, which, and what they contain."""

import asyncio
import gzip
import inspect
import os
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from gridfleet.api.http import Asset, Call, Message, Stream, endpoint, public
from gridfleet.api.http.compression import ENCODINGS, accepted_encoding, compressed
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.http.responses import Response, StreamedResponse
from gridfleet.api.http.schema import JsonSchemas

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
TEXT = "a battery and a grid meter, " * 100
UNCOMPRESS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": zstd.decompress}


async def raw(client: httpx.AsyncClient, path: str, accept: str | None, **headers: str) -> tuple[httpx.Response, bytes]:
    """The response and its body as it was sent."""
    given = {**headers, "accept-encoding": accept or ""}
    async with client.stream("GET", path, headers=given) as response:
        return response, b"".join([piece async for piece in response.aiter_raw()])


def declare(size: int = 3_000, path: str = "/api/v1/text") -> None:
    @endpoint("GET", path, caller=public(), codes=())
    async def text() -> Message:
        return Message("x" * (size - len(b'{"message":""}')))


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_long_response_is_compressed_if_asked_for(browse: Browse, encoding: str) -> None:
    declare()
    async with browse() as client:
        response, body = await raw(client, "/api/v1/text", encoding)
        plain, whole = await raw(client, "/api/v1/text", None)
        head = await client.head("/api/v1/text", headers={"accept-encoding": encoding})
    assert (response.headers["content-encoding"], response.headers["vary"]) == (encoding, "accept-encoding")
    assert len(body) < 200 < len(whole) == 3_000
    assert UNCOMPRESS[encoding](body) == whole
    assert ("content-encoding" in plain.headers, plain.headers["vary"]) == (False, "accept-encoding")
    assert (head.headers["content-encoding"], head.headers["content-length"], head.content) == (encoding, str(len(body)), b"")


async def test_a_short_response_is_not_compressed(browse: Browse) -> None:
    declare(1_023, "/api/v1/short")
    declare(1_024, "/api/v1/long")
    async with browse() as client:
        assert "content-encoding" not in (await raw(client, "/api/v1/short", "gzip"))[0].headers
        assert (await raw(client, "/api/v1/long", "gzip"))[0].headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip", "gzip"),
        ("GZip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0.5, gzip", "gzip"),
        ("zstd;q=0.5, gzip;q=0.5", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("*", "zstd"),
        ("*;q=0", None),
        ("gzip;q=0", None),
        ("identity, gzip;q=0.5", None),
        ("identity;q=0.5, gzip", "gzip"),
        ("gzip ; q=0.001", "gzip"),
        ("gzip;q=nan", None),
        ("gzip;q=inf", None),
        ("gzip;q=-1", None),
        ("gzip;q=1e9", None),
        ("gzip;q=", None),
        ("gzip;q=x;q=1", "gzip"),
        (";;;,,,;q=", None),
        ("gzip" * 10_000, None),
        ("x," * 30_000 + "gzip", None),
        ("\x00gzip", None),
        ("zstd\xff, gzip", "gzip"),
    ],
)
def test_the_header_chooses_the_encoding(header: str, chosen: str | None) -> None:
    assert accepted_encoding(header) == chosen


async def test_a_response_with_a_secret_is_never_compressed(browse: Browse) -> None:
    @endpoint("POST", "/api/v1/secret", caller=public(), codes=())
    async def secret(call: Call) -> Message:
        call.no_store()
        return Message(TEXT)

    async with browse() as client:
        response = await client.post("/api/v1/secret", headers={"accept-encoding": "gzip, zstd"})
    assert ("content-encoding" in response.headers, response.json()["message"]) == (False, TEXT)


def test_handlers_that_return_a_secret_say_so() -> None:
    """`welcome` opens a session for three of them."""
    import_handlers()
    secrets = {"access_token", "hmacSecret", "signingKey", "clientKey", "clientSecret", "password", "key", "secret"}
    found = []
    for row, declared in ENDPOINTS.items():
        schemas = JsonSchemas()
        if declared.success != 204 and declared.response_content_types[0] == "application/json":
            schemas.given(declared.response)
        if secrets & {name for schema in schemas.components.values() for name in schema.get("properties", {})}:
            source = inspect.getsource(declared.handler)
            assert "call.no_store()" in source or "await welcome(call" in source, row
            found.append(row)
    assert ("POST", "/api/v1/auth/login") in found


async def test_only_texts_are_compressed(browse: Browse) -> None:
    kinds = {"application/json": True, "text/csv; charset=utf-8": True, "application/x-ndjson": True, "image/png": False}

    def declare_kind(path: str, kind: str) -> None:
        @endpoint("GET", path, caller=public(), codes=(), response=str)
        async def asset() -> Asset:
            return Asset(kind, TEXT.encode())

    for number, kind in enumerate(kinds):
        declare_kind(f"/api/v1/kind{number}", kind)
    async with browse() as client:
        for number, expected in enumerate(kinds.values()):
            response, _ = await raw(client, f"/api/v1/kind{number}", "gzip")
            assert ("content-encoding" in response.headers) == expected


def declare_stream(kind: str, sent: list[bytes], ended: list[bool]) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        try:
            for piece in sent:
                yield piece
        finally:
            ended.append(True)

    @endpoint("GET", "/api/v1/stream", caller=public(), codes=(), response=str)
    async def stream() -> Stream:
        return Stream(kind, pieces())


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_stream_is_compressed_piece_by_piece(browse: Browse, encoding: str) -> None:
    sent, ended = [TEXT.encode(), b"short", bytes(range(256)) * 1_000, TEXT.encode() * 500], list[bool]()
    declare_stream("text/csv", sent, ended)
    async with browse() as client:
        response, body = await raw(client, "/api/v1/stream", encoding)
        assert response.headers["content-encoding"] == encoding
        assert UNCOMPRESS[encoding](body) == b"".join(sent)
        head = await client.head("/api/v1/stream", headers={"accept-encoding": encoding})
    assert (head.headers["content-encoding"], head.content, ended) == (encoding, b"", [True, True])


async def test_events_are_not_compressed(browse: Browse) -> None:
    sent = [f"data: {TEXT}\n\n".encode()] * 3
    declare_stream("text/event-stream", sent, [])
    async with browse() as client:
        response, body = await raw(client, "/api/v1/stream", "zstd, gzip")
    assert ("content-encoding" in response.headers, body) == (False, b"".join(sent))


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_what_was_sent_of_a_stream_can_be_read_before_its_end(encoding: str) -> None:
    """A client reads each piece when it arrives, and a stream that is cut off has no end."""
    sent, received, more = [TEXT.encode(), b"second", b"third"], list[bytes](), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in sent[1:]:
            yield piece
        await more.wait()

    class FromClient:
        has_secret = False
        sender = "one"
        headers = {"accept-encoding": encoding}

    response: Any = StreamedResponse(200, [(b"content-type", b"text/csv")], sent[0], pieces())
    call: Any = FromClient()
    app = await compressed(call, response)

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        received.append(message.get("body", b""))

    running = asyncio.create_task(app({"method": "GET"}, receive, send))
    async with asyncio.timeout(20):
        while len(received) < 4:
            await asyncio.sleep(0.01)
    assert response.first == b"", "a stream that lasts for hours does not keep its first piece"
    reader: Any = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if encoding == "gzip" else zstd.ZstdDecompressor()
    assert [reader.decompress(piece) for piece in received[1:]] == sent
    assert not reader.eof
    more.set()
    await running
    reader.decompress(received[-1])
    assert reader.eof


async def test_responses_that_wait_for_their_compression_take_a_share_of_the_memory(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.api.http.large_bodies.MOST_SENT_BYTES", 8 << 20)
    declare(size=1 << 20)
    async with browse() as client:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(client.get("/api/v1/text", headers={"accept-encoding": "gzip"})) for _ in range(40)]
        statuses = Counter(one.result().status_code for one in asked)
        assert (await client.get("/api/v1/text")).status_code == 200
    assert set(statuses) == {200, 429}
    assert statuses[429] > 10


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_the_large_responses_of_one_sender_do_not_delay_those_of_others(encoding: str) -> None:
    """A cached response costs its sender nothing but the compression."""
    body, done = os.urandom(1 << 20).hex().encode(), list[str]()

    async def answer(sender: str) -> None:
        class FromClient:
            has_secret = False
            headers = {"accept-encoding": encoding}

        call: Any = FromClient()
        call.sender = sender
        await compressed(call, Response(200, [(b"content-type", b"application/json")], body))
        done.append(sender)

    async with asyncio.TaskGroup() as tasks:
        for sender in [*["one"] * 40, "other"]:
            tasks.create_task(answer(sender))
    assert done.index("other") < 20


async def test_an_unchanged_document_has_one_tag_in_every_encoding(browse: Browse) -> None:
    @endpoint("GET", "/api/v1/page", caller=public(), codes=(), response=str)
    async def page() -> Asset:
        return Asset.tagged("text/plain", TEXT.encode())

    async with browse() as client:
        tags = {(await raw(client, "/api/v1/page", accept))[0].headers["etag"] for accept in (None, *ENCODINGS)}
        assert len(tags) == 1
        for accept in (None, *ENCODINGS):
            unchanged, body = await raw(client, "/api/v1/page", accept, **{"if-none-match": min(tags)})
            assert (unchanged.status_code, body, unchanged.headers["vary"]) == (304, b"", "accept-encoding")
            assert "content-encoding" not in unchanged.headers
