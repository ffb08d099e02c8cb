"""Partners' queues in the broker: their names, and that they are wanted or not any more."""

from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.kernel.db import Connection
from gridfleet.kernel.outbox import enqueue

__all__ = ["EXCHANGE", "PARTNER_QUEUES", "RESERVED_PREFIX", "PartnerQueue", "partner_queues", "queue_change"]

EXCHANGE: Final = "vcp"
PARTNER_QUEUES: Final = "partner_queues"
"""The kind of effect; its payload is {organizationId, enabled}."""
RESERVED_PREFIX: Final = "vcp"
"""Outbound queues begin with it, so no organisation's own may."""

_OUTBOUND: Final = {
    "telemetry": "Decoded values of your sites as they come in.",
    "status": "A site came online, or went.",
    "command-ack": "What became of a command: accepted, rejected, applied, failed, expired.",
    "alert": "An alert was raised at a site.",
}
_INBOUND: Final = {
    "command.site-setpoint": "Power of a site. Unsigned.",
    "command.device.#": "An action of one device; its external id may end the key. Signed.",
    "command.mode": "Operating mode, emergency stop included. Signed.",
    "schedule.*": "`schedule.set` and `schedule.cancel`. Signed.",
    "config.*": "`config.constraints` and `config.fallback`. Unsigned.",
}


class PartnerQueue(NamedTuple):
    """A queue with a key that leads into it: `outbound` to the partner, `inbound` from it."""

    name: str
    routing_key: str
    direction: str
    description: str


def partner_queues(slug: str, queue_prefix: str) -> list[PartnerQueue]:
    """The four outbound queues, and the inbound one with each family of keys that it is bound to."""
    outbound = [
        PartnerQueue(f"vcp.{slug}.event.{event}", f"{slug}.event.{event}", "outbound", text)
        for event, text in _OUTBOUND.items()
    ]
    inbound = [
        PartnerQueue(f"{queue_prefix}.inbound", f"{slug}.{family}", "inbound", text) for family, text in _INBOUND.items()
    ]
    return outbound + inbound


async def queue_change(db: Connection, organization_id: UUID, *, enabled: bool) -> None:
    """Has the organisation's queues made or removed, in the vhost of each of its keys, after the commit."""
    payload = {"organizationId": str(organization_id), "enabled": enabled}
    await enqueue(db, PARTNER_QUEUES, payload, key=str(organization_id))
