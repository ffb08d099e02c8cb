"""Client of an ESM's HTTP API: client credentials, retries of idempotent requests, a time limit for each call."""

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import quote, quote_plus
from uuid import UUID

import httpx
import msgspec
import structlog

from gridfleet.domains.trading.esm.messages import (
    EsmConfig,
    EsmPlants,
    EsmReading,
    EsmReadings,
    EsmRefusal,
    EsmToken,
    PlanResponse,
)
from gridfleet.kernel import metrics
from gridfleet.kernel.outbound.addresses import AddressRefused, NameUnknown, parse_base_url
from gridfleet.kernel.outbound.sending import Outbound, Response, ResponseTooLarge, ServiceClient, TimedOut, Unreachable
from gridfleet.kernel.tracing import span
from gridfleet.kernel.turns import FairThread, Turns
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = ["EsmAccess", "EsmClient", "EsmFailed", "decode_response"]

T = TypeVar("T")

_READ_TRIES: Final = 3
MOST_SECONDS: Final = 30.0
"""Maximum seconds for one call with all its tries, including the token request."""
MOST_CALLS: Final = 8
"""Calls of an organisation at the same time; further ones wait. Each may hold a response of 8 MiB, and what is read from it."""
_MOST_TOKENS: Final = 1_000
_MOST_COMMAS: Final = 500_000
"""A response of 8 MiB may have millions of values, which take seconds and most of a GiB to decode. Readings have fewer."""
_MOST_IN_LOOP: Final = 65_536
"""Bytes of a response above which it is read in a thread: readings of 8 MiB take half a second."""
_SPARE_SECONDS: Final = 30.0
"""A token is replaced this many seconds before it expires."""
_FORM: Final = "application/x-www-form-urlencoded"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EsmAccess:
    """Address and credentials of an organisation's ESM."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    organization_id: UUID | None = None
    """The organisation whose calls take turns."""


class EsmFailed(Exception):
    """The ESM gave no valid response.

    `result_code` is the result as change records name it; `status` is that of the HTTP response, None if there was none.
    """

    def __init__(self, result_code: str, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.result_code = result_code
        self.text = text
        self.status = status


class EsmClient:
    """Client of the ESMs of all organisations, one per process. Raises `EsmFailed` and nothing else, except `check_url`."""

    def __init__(self, outbound: Outbound, own_url: str, *, backoff_seconds: float = 0.25) -> None:
        """Create a client.

        Args:
            outbound: Opens the HTTP connections.
            own_url: The address of the sandbox, which may be a private address.
            backoff_seconds: Pause before the second try; it doubles with each further try.
        """
        self._outbound = outbound
        self._own_url = own_url
        self._backoff_seconds = backoff_seconds
        self._tokens: dict[EsmAccess, tuple[str, float]] = {}
        self._turns = Turns(MOST_CALLS)
        self._thread = FairThread("esm-responses")

    async def check_url(self, text: str) -> str:
        """Return the address in the form that is stored.

        A host name without an address is accepted, since it may get one later; it is checked again before each call.

        Raises:
            AddressRefused: The service never calls this address.
        """
        if text.rstrip("/") == self._own_url:
            return self._own_url
        url = parse_base_url(text)
        try:
            await self._outbound.check(url)
        except (NameUnknown, TimedOut) as error:
            log.info("an ESM's name has no address yet", reason=type(error).__name__)
        return str(url)

    async def plants(self, access: EsmAccess, made_of: Callable[[list[msgspec.Raw]], T]) -> T:
        """Return the result of `made_of` for the undecoded JSON records of the ESM's plants. Many are read in a thread."""

        def read(response: Response) -> T:
            return made_of(decode_response(response, EsmPlants).plants)

        return await self._call(access, "plants", "GET", "/plants", read, tries=_READ_TRIES)

    async def config(self, access: EsmAccess, external_plant_id: str) -> EsmConfig:
        """Return the current plan of a plant."""
        return await self._read(access, "config", f"{_path(external_plant_id)}/config", EsmConfig)

    async def readings(
        self,
        access: EsmAccess,
        external_plant_id: str,
        start: datetime,
        end: datetime,
        made_of: Callable[[list[EsmReading]], T],
    ) -> T:
        """Return the result of `made_of` for the meter readings of a plant between two times. Many are read in a thread."""
        query = {"from": format_time(start), "to": format_time(end)}
        path = f"{_path(external_plant_id)}/meters"

        def read(response: Response) -> T:
            return made_of(decode_response(response, EsmReadings).readings)

        return await self._call(access, "meters", "GET", path, read, tries=_READ_TRIES, query=query)

    async def send_plan(
        self,
        access: EsmAccess,
        external_plant_id: str,
        request_code: str,
        blocks: Sequence[TimeBlock],
        *,
        validate_only: bool,
    ) -> PlanResponse:
        """Send a plan once and return the ESM's response. With `validate_only` the ESM only checks it.

        Raises:
            EsmFailed: The ESM did not respond, refused the request, or sent an invalid response.
        """
        content = msgspec.json.encode({"requestCode": request_code, "timeConfigs": list(blocks)})
        path = f"{_path(external_plant_id)}/config"
        call, method, path = ("validate", "POST", f"{path}/validate") if validate_only else ("plan", "PUT", path)
        read = partial(decode_response, kind=PlanResponse)
        response = await self._call(access, call, method, path, read, content=content)
        if response.request_code != request_code:
            raise EsmFailed("ESM_UNAVAILABLE", "The ESM's response has another requestCode.")
        return response

    async def _read(self, access: EsmAccess, call: str, path: str, kind: type[T]) -> T:
        return await self._call(access, call, "GET", path, partial(decode_response, kind=kind), tries=_READ_TRIES)

    async def _call(
        self, access: EsmAccess, call: str, method: str, path: str, read: Callable[[Response], T], **more: Any
    ) -> T:
        try:
            with span(f"ESM {call}", "client"):
                found = await self._with_token(access, method, path, read, **more)
        except EsmFailed as error:
            metrics.ESM_REQUESTS.labels(call, error.result_code.lower()).inc()
            log.info("ESM call failed", call=call, result=error.result_code, status=error.status, reason=error.text)
            raise
        metrics.ESM_REQUESTS.labels(call, "ok").inc()
        return found

    async def _with_token(
        self,
        access: EsmAccess,
        method: str,
        path: str,
        read: Callable[[Response], T],
        *,
        tries: int = 1,
        query: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> T:
        has_turn = is_sent = False
        try:
            is_own = access.url == self._own_url
            base = httpx.URL(access.url) if is_own else parse_base_url(access.url)
            async with asyncio.timeout(MOST_SECONDS), self._turns.of(access.organization_id):
                has_turn = True
                async with self._outbound.open(base, private=is_own) as client:
                    token, is_fresh = await self._token(access, client)
                    headers = {"content-type": "application/json"} if content is not None else {}
                    while True:
                        bearer = {**headers, "authorization": f"Bearer {token}"}
                        is_sent = True
                        response = await self._send(client, tries, method, path, query=query, content=content, headers=bearer)
                        if response.status != 401 or is_fresh:
                            if len(response.body) <= _MOST_IN_LOOP:
                                return read(response)
                            return await self._thread.run(access.organization_id, partial(read, response))
                        if self._tokens.get(access, ("", 0.0))[0] == token:  # another call may have got a new one
                            del self._tokens[access]
                        token, is_fresh = await self._token(access, client)
        except AddressRefused as error:
            raise EsmFailed("ESM_UNAVAILABLE", f"The ESM's address {error}.") from error
        except NameUnknown as error:
            raise EsmFailed("ESM_UNAVAILABLE", "The ESM's host name has no address.") from error
        except Unreachable as error:
            raise EsmFailed("ESM_UNAVAILABLE", "The ESM cannot be reached.") from error
        except ResponseTooLarge as error:
            raise EsmFailed("ESM_UNAVAILABLE", f"The ESM's response was not read: {error}.") from error
        except (TimedOut, TimeoutError) as error:
            if not has_turn:
                raise EsmFailed("ESM_UNAVAILABLE", "Too many calls to the ESM wait.") from error
            if content is not None and not is_sent:  # TIMEOUT would mean that the plan may be in effect
                raise EsmFailed("ESM_UNAVAILABLE", "The ESM did not respond in time, and no plan was sent.") from error
            raise EsmFailed("TIMEOUT", "The ESM did not respond in time.") from error

    async def _token(self, access: EsmAccess, client: ServiceClient) -> tuple[str, bool]:
        """Return a token, and whether it is new."""
        known = self._tokens.get(access)
        if known is not None and time.monotonic() < known[1]:
            return known[0], False
        # RFC 6749, 2.3.1: both are form-encoded before they become a Basic header.
        pair = f"{quote_plus(access.client_id)}:{quote_plus(access.client_secret)}"
        headers = {"authorization": f"Basic {b64encode(pair.encode()).decode()}", "content-type": _FORM}
        response = await self._send(
            client, _READ_TRIES, "POST", "/oauth/token", content=b"grant_type=client_credentials", headers=headers
        )
        if response.status in (400, 401, 403):
            raise EsmFailed("ESM_UNAVAILABLE", f"The ESM refused the credentials ({response.status}).")
        try:
            token = decode_response(response, EsmToken)
        except EsmFailed as error:
            # The token request's status says nothing about the call itself, so it is not passed on.
            raise EsmFailed("ESM_UNAVAILABLE", f"The ESM issued no token. {error.text}") from error
        if len(self._tokens) >= _MOST_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))  # remove the oldest; its owner requests a new one
        self._tokens[access] = (token.access_token, time.monotonic() + token.expires_in - _SPARE_SECONDS)
        return token.access_token, True

    async def _send(self, client: ServiceClient, tries: int, method: str, path: str, **more: Any) -> Response:
        """Send one request, up to `tries` times while there is no connection or the status is 500 or above."""
        for number in range(1, tries + 1):
            try:
                response = await client.send(method, path, **more)
            except Unreachable:
                if number == tries:
                    raise
            else:
                if response.status < 500 or number == tries:
                    return response
            await asyncio.sleep(self._backoff_seconds * 2 ** (number - 1))
        raise AssertionError("a request is tried at least once")


def _path(external_plant_id: str) -> str:
    segment = quote(external_plant_id, safe="")
    if segment in (".", ".."):
        # No encoding keeps these from being interpreted as path segments with a meaning of their own.
        raise EsmFailed("ESM_UNAVAILABLE", "The plant's external id cannot be part of a URL.")
    return f"/plants/{segment}"


def decode_response(response: Response, kind: type[T]) -> T:
    """Return the record in a response.

    Raises:
        EsmFailed: The status is an error, or the body is not a JSON record of this kind.
    """
    if not 200 <= response.status < 300:
        code = "VALIDATION_FAILED" if response.status in (400, 422) else "ESM_UNAVAILABLE"
        raise EsmFailed(code, f"The ESM responded with {response.status}{_reason(response)}.", response.status)
    if not _is_json(response):
        raise EsmFailed("ESM_UNAVAILABLE", "The ESM did not respond with JSON.", response.status)
    if response.body.count(b",") > _MOST_COMMAS:
        raise EsmFailed("ESM_UNAVAILABLE", "The ESM's response has too many values.", response.status)
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EsmFailed("ESM_UNAVAILABLE", f"The ESM's response is not valid: {error}.", response.status) from error


def _is_json(response: Response) -> bool:
    kind = response.content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _reason(response: Response) -> str:
    """Return the text of the response's member `message`, shortened to printable ASCII, or an empty string."""
    if not _is_json(response):
        return ""
    try:
        message = msgspec.json.decode(response.body, type=EsmRefusal).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return f": {re.sub(r'[^!-~]+', ' ', message)[:500].rstrip('.')}" if message else ""
