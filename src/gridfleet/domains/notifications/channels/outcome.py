"""The outcome of an attempted delivery, and the interface of channels."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gridfleet.domains.notifications.models import Outgoing

__all__ = ["Outcome", "Sender"]


class Outcome(NamedTuple):
    """`error` None: the delivery was sent. `final`: do not try again. `ticket`: the push service's id of the message."""

    error: str | None = None
    final: bool = False
    ticket: str | None = None


class Sender(Protocol):
    """A channel. `most`: maximum number of deliveries in one call."""

    most: int

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Try the deliveries and return one outcome each, in their order.

        An error that means an outage counts as a failure of all of them. After any other error they are sent again in halves.
        """
