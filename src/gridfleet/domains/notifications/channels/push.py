"""Push notifications over Expo's HTTP API (https://docs.expo.dev/push-notifications/sending-notifications/)."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import httpx
import msgspec

from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.models import Outgoing
from gridfleet.kernel.outbound.addresses import NameUnknown
from gridfleet.kernel.outbound.sending import Outbound, Response, ResponseTooLarge, TimedOut, Unreachable

__all__ = ["DEVICE_NOT_REGISTERED", "ExpoPush", "ExpoRefused", "ExpoUnavailable"]

DEVICE_NOT_REGISTERED: Final = "DeviceNotRegistered"
_FINAL: Final = {DEVICE_NOT_REGISTERED, "MessageTooBig", "MismatchSenderId"}
_REQUESTS_AT_ONCE: Final = 6
"""As many as Expo's own client sends at the same time."""
_SECONDS: Final = 20.0
_ALL_SECONDS: Final = 25.0
"""Of all requests for the messages of one `send`: less than the worker waits for it."""
_LATE: Final = Outcome("the push service did not respond in time")
_MOST_BYTES: Final = 1024 * 1024
"""Of a response. Reading the largest as JSON takes milliseconds; 300 receipts with errors have 100 KB."""
_LOUD: Final = {"CRITICAL", "EMERGENCY"}


class ExpoRefused(Exception):
    """The service responded to a whole request with an error, or its response cannot be read.

    `projects` are those of the tokens, if the service refused tokens of several projects.
    """

    def __init__(self, reason: str, projects: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.projects = projects or {}


class ExpoUnavailable(Exception):
    """There is no response, or none that is worth reading. A later request may succeed."""


class ExpoPush:
    """A push service with Expo's API. It accepts 100 messages per request."""

    most = 100

    def __init__(self, url: str, access_token: str | None = None, seconds: float = _ALL_SECONDS) -> None:
        """Create a client of the service at `url`.

        Args:
            url: The service.
            access_token: Needed if the Expo project requires one.
            seconds: The time of one `send`, with all of its requests.
        """
        self._seconds = seconds
        self._outbound = Outbound(seconds=_SECONDS)
        self._base = httpx.URL(url.rstrip("/"))
        self._requests = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self._headers = {"content-type": "application/json"}
        if access_token:
            self._headers["authorization"] = f"Bearer {access_token}"

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Send messages. A request that is refused as a whole is repeated in parts.

        Tokens of two projects cannot be in one request, and one bad token makes the whole request fail. When the time is over,
        the messages whose outcome is known are not sent again.
        """
        outcomes: dict[UUID, Outcome] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._send(deliveries, outcomes)
        return [outcomes.get(delivery.id, _LATE) for delivery in deliveries]

    async def _send(self, deliveries: Sequence[Outgoing], outcomes: dict[UUID, Outcome]) -> None:
        """Send messages and add their outcomes to `outcomes`."""
        try:
            async with self._requests:
                tickets = await self._post("send", [_message(delivery) for delivery in deliveries])
        except ExpoRefused as error:
            if len(deliveries) > 1:
                await asyncio.gather(*(self._send(part, outcomes) for part in _parts(deliveries, error.projects)))
                return
            found = [Outcome(str(error))]
        except ExpoUnavailable as error:
            # Not raised: other parts may have been sent, and would be sent again.
            found = [Outcome(str(error))] * len(deliveries)
        else:
            if isinstance(tickets, list) and len(tickets) == len(deliveries):
                found = [_outcome(ticket) for ticket in tickets]
            else:
                found = [Outcome("the push service responded with another number of tickets than messages")] * len(deliveries)
        outcomes.update(zip((delivery.id for delivery in deliveries), found, strict=True))

    async def receipts(self, tickets: Sequence[str]) -> dict[str, Outcome]:
        """Return the final outcomes of sent messages, by ticket. Messages without a receipt yet are left out."""
        found = await self._post("getReceipts", {"ids": list(tickets)})
        return {ticket: _outcome(receipt) for ticket, receipt in found.items()} if isinstance(found, dict) else {}

    async def _post(self, method: str, content: object) -> Any:
        response = await self._request(f"/--/api/v2/push/{method}", msgspec.json.encode(content))
        if response.status == 429 or response.status >= 500:
            raise ExpoUnavailable(f"the push service responded with {response.status}")
        try:
            body = msgspec.json.decode(response.body, type=_Response)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ExpoRefused(f"the push service's response ({response.status}) cannot be read: {error}") from None
        if response.status >= 400 or body.errors:
            reasons = "; ".join(f"{error.code}: {error.message}" for error in body.errors or ())
            raise ExpoRefused(reasons or f"the push service responded with {response.status}", _projects(body.errors or ()))
        return body.data

    async def _request(self, path: str, content: bytes) -> Response:
        try:
            # The service is the operator's choice, so its address may be private.
            async with self._outbound.open(self._base, private=True) as client:
                response = await client.send("POST", path, content=content, headers=self._headers)
        except NameUnknown as error:
            raise ExpoUnavailable("the push service's host name has no address") from error
        except Unreachable as error:
            raise ExpoUnavailable(f"the push service cannot be reached: {error}") from error
        except TimedOut as error:
            raise ExpoUnavailable("the push service did not respond in time") from error
        except ResponseTooLarge as error:
            raise ExpoUnavailable(f"the push service's response was not read: {error}") from error
        if len(response.body) > _MOST_BYTES:
            raise ExpoUnavailable(f"the push service's response was not read: it has more than {_MOST_BYTES} bytes")
        return response


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None
    details: Any = None


class _Response(msgspec.Struct):
    data: Any = None
    errors: list[_Error] | None = None


def _projects(errors: Iterable[_Error]) -> dict[str, str]:
    """Return the project of each token that the details of errors list by project."""
    return {
        token: project
        for error in errors
        if isinstance(error.details, dict)
        for project, tokens in error.details.items()
        if isinstance(tokens, list)
        for token in tokens
        if isinstance(token, str)
    }


def _parts(deliveries: Sequence[Outgoing], projects: Mapping[str, str]) -> Iterable[Sequence[Outgoing]]:
    """Split refused messages by project if the service named several, else by organisation, and those of one in halves.

    So an organisation whose tokens belong to several projects does not delay the messages of others.
    """
    by_project, by_organization = defaultdict(list), defaultdict(list)
    for delivery in deliveries:
        by_project[projects.get(delivery.address)].append(delivery)
        # Test messages have no organisation.
        by_organization[delivery.organization or delivery.user_id].append(delivery)
    if len(by_project) > 1:
        return by_project.values()
    if len(by_organization) > 1:
        return by_organization.values()
    middle = len(deliveries) // 2
    return deliveries[:middle], deliveries[middle:]


def _message(delivery: Outgoing) -> dict[str, Any]:
    loud = delivery.metadata.get("severity") in _LOUD
    return {
        "to": delivery.address,
        "title": delivery.subject,
        "body": delivery.body,
        "data": {"notificationId": str(delivery.id), **delivery.metadata},
        "sound": "default",
        "priority": "high" if loud else "default",
    }


class _Details(msgspec.Struct):
    error: str | None = None


class _Ticket(msgspec.Struct):
    status: str
    id: str | None = None
    message: str | None = None
    details: _Details | None = None


def _outcome(response: object) -> Outcome:
    """Return the outcome in a ticket or receipt.

    Never raises: the other messages of the request were sent, and would be sent again.
    """
    try:
        ticket = msgspec.convert(response, _Ticket)
    except msgspec.ValidationError as error:
        return Outcome(f"the push service's response cannot be read: {error}")
    if ticket.status == "ok":
        return Outcome(ticket=ticket.id)
    reason = ticket.details and ticket.details.error
    text = ": ".join(part for part in (reason, ticket.message) if part)
    return Outcome(text or "the push service gave no reason", reason in _FINAL)
