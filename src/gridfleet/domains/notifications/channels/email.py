"""Notifications by mail."""

import asyncio
from collections.abc import Sequence

import structlog

from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.models import Outgoing
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.delivery import MailDelivery, MailRefused
from gridfleet.kernel.mail.message import Mail

__all__ = ["EmailChannel"]

log = structlog.get_logger(__name__)


class EmailChannel:
    """Sends notifications as mails.

    A mail that is delivered twice has the same Message-ID, so that mail programs show it once.
    """

    most = 5

    def __init__(self, delivery: MailDelivery, base_url: str) -> None:
        self._delivery = delivery
        self._base_url = base_url

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Send the mails concurrently."""
        return await asyncio.gather(*(self._send(delivery) for delivery in deliveries))

    async def _send(self, delivery: Outgoing) -> Outcome:
        content = MailContent(
            subject=delivery.subject,
            paragraphs=tuple(delivery.body.splitlines()),
            reason="You got this mail because you look after an organisation at Gridfleet as ORG_ADMIN or OPERATOR.",
        )
        try:
            await self._delivery.deliver(Mail(delivery.id, delivery.address, content, self._base_url, delivery.created_at))
        except MailRefused as error:
            return Outcome(str(error), final=True)
        except Exception as error:  # any error of the mail library or the network: the mail is tried again
            # The text may have the address of the server or its user, which members of organisations must not see.
            log.warning("mail not delivered", error=f"{type(error).__name__}: {error}")
            return Outcome(f"{type(error).__name__}: the mail was not delivered")
        return Outcome()
