"""What became of a delivery that was tried."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gridfleet.domains.notifications.models import Outgoing

__all__ = ["Outcome", "Sender"]


class Outcome(NamedTuple):
    """`error` None: it was handed over. `final`: trying again is useless. `ticket`: the push service's name for it."""

    error: str | None = None
    final: bool = False
    ticket: str | None = None


class Sender(Protocol):
    """A channel's way out. `most`: deliveries that it takes at once."""

    most: int

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        """Tries the deliveries; one outcome each, in their order. An outage that it raises counts as a failure of all of them;
        after any other error they are sent again in halves."""
