"""The outcome of an attempted delivery, and the interface of channels."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gridfleet.domains.notifications.models import Outgoing

__all__ = ["Outcome", "Sender"]


class Outcome(NamedTuple):
    """The outcome of a delivery.

    Attributes:
        error: Why it failed; None if it was sent.
        final: Whether it must not be tried again.
        ticket: The push service's id of the message.
    """

    error: str | None = None
    final: bool = False
    ticket: str | None = None


class Sender(Protocol):
    """A channel. `most` is the maximum number of deliveries in one call."""

    most: int

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Try the deliveries and return one outcome each, in their order.

        An error that means an outage counts as a failure of all of them. After any other error they are sent again in halves.
        """
