"""The queues of a trading organisation, as the API describes them to partners."""

from typing import Final, NamedTuple

from gridfleet.kernel.broker.partner_topology import inbound_queue
from gridfleet.protocol.partner_keys import EXCHANGE, EventKind, event_queue, event_routing_key

__all__ = ["EXCHANGE", "RESERVED_PREFIX", "PartnerQueue", "partner_queues"]

RESERVED_PREFIX: Final = EXCHANGE
"""The names of outbound queues begin with this, so an organisation's own prefix must not be the same."""

_OUTBOUND: Final = {
    EventKind.TELEMETRY: "Decoded values of your sites as they come in.",
    EventKind.STATUS: "A site came online, or went.",
    EventKind.COMMAND_ACK: "What became of a command: accepted, rejected, applied, failed, expired.",
    EventKind.ALERT: "An alert was raised at a site.",
}
_INBOUND: Final = {
    "command.site-setpoint": "Power of a site. Unsigned.",
    "command.device.#": "An action of one device; its external id may end the key. Signed.",
    "command.mode": "Operating mode, emergency stop included. Signed.",
    "schedule.*": "`schedule.set` and `schedule.cancel`. Signed.",
    "config.*": "`config.constraints` and `config.fallback`. Unsigned.",
}


class PartnerQueue(NamedTuple):
    """A queue with a routing key that leads into it: `outbound` to the partner, `inbound` from it."""

    name: str
    routing_key: str
    direction: str
    description: str


def partner_queues(slug: str, queue_prefix: str) -> list[PartnerQueue]:
    """Return the four outbound queues, and the inbound queue with each family of routing keys that it is bound to."""
    outbound = [
        PartnerQueue(event_queue(slug, kind), event_routing_key(slug, kind), "outbound", text)
        for kind, text in _OUTBOUND.items()
    ]
    inbound = [
        PartnerQueue(inbound_queue(queue_prefix), f"{slug}.{family}", "inbound", text) for family, text in _INBOUND.items()
    ]
    return outbound + inbound
