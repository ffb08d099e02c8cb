"""Request bodies: reading within limits and strict decoding."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from gridfleet.api.http.errors import PayloadTooLarge
from gridfleet.api.http.responses import Receive
from gridfleet.kernel.errors import CodedError, ValidationFailed

__all__ = ["MAX_BODY_BYTES", "READ_SECONDS", "ClientGone", "decode_json", "read_body"]

MAX_BODY_BYTES: Final = 1024 * 1024
READ_SECONDS: Final = 30
_DRAIN_BYTES: Final = 16 * 1024 * 1024
_DRAIN_SECONDS: Final = 5


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


async def read_body(receive: Receive, announced: int, limit: int, count: Callable[[int], None] | None = None) -> bytes:
    """Return the whole body, announced or chunked.

    Args:
        receive: The ASGI receive function.
        announced: The content length in bytes, 0 for a chunked body.
        limit: The largest accepted body in bytes.
        count: Called with the number of bytes that have arrived. It may raise.

    Raises:
        PayloadTooLarge: If the body is larger than `limit`.
        ValidationFailed: If the body does not arrive in time.
        ClientGone: If the client disconnects.
    """
    if announced > limit:
        await _drain(receive)
        raise PayloadTooLarge
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await _read(receive, limit, count)
    except TimeoutError:
        raise ValidationFailed(details=[f"body: must arrive within {READ_SECONDS} seconds"]) from None


async def _read(receive: Receive, limit: int, count: Callable[[int], None] | None) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientGone
        chunks.append(event["body"])
        size += len(chunks[-1])
        try:
            if size > limit:
                raise PayloadTooLarge
            if count is not None:
                count(len(chunks[-1]))
        except CodedError:
            chunks.clear()
            if event["more_body"]:
                await _drain(receive)
            raise
        if not event["more_body"]:
            return b"".join(chunks)


async def _drain(receive: Receive) -> None:
    # A client that is still sending would see a broken connection instead of the response. So its body is read, up to a limit.
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while size < _DRAIN_BYTES:
                event = await receive()
                if event["type"] != "http.request":
                    raise ClientGone
                size += len(event["body"])
                if not event["more_body"]:
                    return
    except TimeoutError:
        return


class _Refused(ValueError):
    """The text is accepted by Python's JSON decoder but not by this API."""


def _no_constant(name: str) -> Any:
    raise _Refused(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"the field {name[:64]} occurs twice in one object")
            seen.add(name)
    return record


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def decode_json(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        ValidationFailed: If the body is empty, not UTF-8, not JSON, ambiguous or nested too deep.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValidationFailed(details=["body: must be UTF-8"]) from None
    if not text.strip():
        raise ValidationFailed(details=["body: must not be empty"])
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise ValidationFailed(
            details=[f"body: must be JSON ({error.msg} at line {error.lineno} column {error.colno})"]
        ) from None
    except _Refused as error:
        raise ValidationFailed(details=[f"body: must be unambiguous JSON ({error})"]) from None
    except RecursionError:
        raise ValidationFailed(details=["body: must have fewer levels of nesting"]) from None
    except ValueError:
        raise ValidationFailed(details=["body: must not contain a number with thousands of digits"]) from None
