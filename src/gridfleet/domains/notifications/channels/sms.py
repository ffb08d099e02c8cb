"""Text messages over the gateway that the operator configured as an Apprise URL (https://github.com/caronc/apprise)."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.models import Outgoing

__all__ = ["SmsChannel"]

_LONGEST: Final = 300
"""Characters: two messages at most gateways."""


class SmsChannel:
    """One gateway. `{phone}` in its URL stands for the recipient's number."""

    most = 5

    def __init__(self, url: str | None) -> None:
        self._url = url

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Send messages concurrently, each in a thread."""
        return await asyncio.gather(*(asyncio.to_thread(self._send, delivery) for delivery in deliveries))

    def _send(self, delivery: Outgoing) -> Outcome:
        if self._url is None:
            return Outcome("no SMS gateway is configured (GRIDFLEET_SMS_URL)", final=True)
        import apprise  # takes a quarter of a second; only processes that send text messages need it

        gateway = apprise.Apprise()
        if not gateway.add(self._url.replace("{phone}", quote(delivery.address, safe=""))):
            return Outcome("GRIDFLEET_SMS_URL is not a URL that Apprise supports")
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:  # type: ignore[no-untyped-call]
            sent = gateway.notify(body=delivery.subject[:_LONGEST])
            return Outcome() if sent else Outcome(log.getvalue().strip()[:500] or "the SMS gateway refused the message")
