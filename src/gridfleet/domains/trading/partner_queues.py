"""The queues of a trading organisation, as the API describes them to partners."""

from typing import Final

import msgspec

from gridfleet.domains.partners.topology import inbound_queue
from gridfleet.protocol.partner_routes import EVENTS, EXCHANGE, FAMILIES, event_queue, event_routing_key

__all__ = ["EXCHANGE", "RESERVED_PREFIXES", "Queue", "partner_queues"]

RESERVED_PREFIXES: Final = frozenset({EXCHANGE, "amq"})
"""Not allowed as an organisation's own prefix: names of event queues begin with `vcp.`, those of the broker with `amq.`."""


class Queue(msgspec.Struct, frozen=True, rename="camel"):
    """A queue, and a routing key that leads into it."""

    name: str
    routing_key: str
    direction: str
    description: str


def partner_queues(slug: str, queue_prefix: str) -> list[Queue]:
    """Return the four event queues, and the inbound queue with each family of routing keys that it is bound to."""
    outbound = [
        Queue(event_queue(slug, kind), event_routing_key(slug, kind), "outbound", text) for kind, text in EVENTS.items()
    ]
    name = inbound_queue(queue_prefix)
    inbound = [
        Queue(
            name,
            f"{slug}.{family.pattern}",
            "inbound",
            f"{family.description} {'Signed' if family.signed else 'Unsigned'}.",
        )
        for family in FAMILIES
    ]
    return outbound + inbound
