"""Push notifications over Expo's HTTP API (https://docs.expo.dev/push-notifications/sending-notifications/)."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import httpx
import msgspec

from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.models import Outgoing
from gridfleet.kernel.isolation import reason_of

__all__ = ["DEVICE_NOT_REGISTERED", "ExpoPush", "ExpoRefused"]

DEVICE_NOT_REGISTERED: Final = "DeviceNotRegistered"
_FINAL: Final = {DEVICE_NOT_REGISTERED, "MessageTooBig", "MismatchSenderId"}
_REQUESTS_AT_ONCE: Final = 6
"""As many as Expo's own client sends at the same time."""
_LOUD: Final = {"CRITICAL", "EMERGENCY"}


class ExpoRefused(Exception):
    """The service answered a whole request with an error, or its response cannot be read."""


class ExpoPush:
    """A push service with Expo's API. It accepts 100 messages per request."""

    most = 100

    def __init__(self, http: httpx.AsyncClient, access_token: str | None = None) -> None:
        """Create a client. `http` has the service's base URL; `access_token` is needed if the Expo project requires one."""
        self._http = http
        self._requests = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self._headers = {"authorization": f"Bearer {access_token}"} if access_token else {}

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Send messages. A request that is refused as a whole is repeated in halves.

        Tokens of two apps cannot be in one request, and one bad token makes the whole request fail.
        """
        try:
            async with self._requests:
                tickets = await self._post("send", [_message(delivery) for delivery in deliveries])
        except ExpoRefused as error:
            if len(deliveries) == 1:
                return [Outcome(str(error))]
            middle = len(deliveries) // 2
            halves = await asyncio.gather(self.send(deliveries[:middle]), self.send(deliveries[middle:]))
            return [outcome for half in halves for outcome in half]
        except httpx.HTTPError as error:
            # Of this request only: what the other half has sent would be sent again.
            return [Outcome(reason_of(error))] * len(deliveries)
        if not isinstance(tickets, list) or len(tickets) != len(deliveries):
            return [Outcome("the push service answered with another number of tickets than messages")] * len(deliveries)
        return [_outcome(ticket) for ticket in tickets]

    async def receipts(self, tickets: Sequence[str]) -> dict[str, Outcome]:
        """Return the final outcomes of sent messages, by ticket. Messages without a receipt yet are left out."""
        found = await self._post("getReceipts", {"ids": list(tickets)})
        return {ticket: _outcome(receipt) for ticket, receipt in found.items()} if isinstance(found, dict) else {}

    async def _post(self, method: str, content: object) -> Any:
        response = await self._http.post(f"/--/api/v2/push/{method}", json=content, headers=self._headers)
        if response.status_code == 429 or response.status_code >= 500:
            response.raise_for_status()
        try:
            body = msgspec.json.decode(response.content, type=_Response)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ExpoRefused(f"the push service's response ({response.status_code}) cannot be read: {error}") from None
        if response.is_error or body.errors:
            reasons = "; ".join(f"{error.code}: {error.message}" for error in body.errors or ())
            raise ExpoRefused(reasons or f"the push service answered {response.status_code}")
        return body.data


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Response(msgspec.Struct):
    data: Any = None
    errors: list[_Error] | None = None


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
