"""Text messages over the gateway that the operator configured as an Apprise URL (https://github.com/caronc/apprise)."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Final
from urllib.parse import quote

from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.models import Outgoing

__all__ = ["SmsChannel"]

_LONGEST: Final = 300
"""Characters: two messages at most gateways."""


_warnings: ContextVar[list[str] | None] = ContextVar("_warnings", default=None)
"""Warnings of Apprise about the current message."""


class _Warnings(logging.Handler):
    """Collects warnings by message. Apprise's own log capture would mix those of messages that are sent at the same time, and
    they name recipients of other organisations.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if (own := _warnings.get()) is not None:
            own.append(record.getMessage())


_COLLECT: Final = _Warnings(logging.WARNING)


class SmsChannel:
    """One gateway. `{phone}` in its URL stands for the recipient's number."""

    most = 5

    def __init__(self, url: str | None) -> None:
        self._url = url
        # A gateway that hangs occupies threads also after the caller has given up. Other work must not wait for them.
        self._threads = ThreadPoolExecutor(self.most, "sms")

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Send messages concurrently, each in a thread."""
        send = asyncio.get_running_loop().run_in_executor
        return await asyncio.gather(*(send(self._threads, copy_context().run, self._send, delivery) for delivery in deliveries))

    def _send(self, delivery: Outgoing) -> Outcome:
        if self._url is None:
            return Outcome("no SMS gateway is configured (GRIDFLEET_SMS_URL)", final=True)
        import apprise  # takes a quarter of a second; only processes that send text messages need it

        gateway = apprise.Apprise()
        if not gateway.add(self._url.replace("{phone}", quote(delivery.address, safe=""))):
            return Outcome("GRIDFLEET_SMS_URL is not a URL that Apprise supports")
        log = logging.getLogger("apprise")
        log.addHandler(_COLLECT)
        if not log.isEnabledFor(logging.WARNING):
            log.setLevel(logging.WARNING)
        # Each message has a context of its own (`send`), which Apprise passes on to its threads.
        warnings: list[str] = []
        _warnings.set(warnings)
        if gateway.notify(body=delivery.subject[:_LONGEST]):
            return Outcome()
        return Outcome("\n".join(warnings).strip()[:500] or "the SMS gateway refused the message")
