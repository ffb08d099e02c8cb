"""What stands in a partner's vhost:

    vcp (topic) ──{slug}.event.telemetry|status|command-ack|alert──▶ vcp.{slug}.event.…, which the partner consumes
        └── {slug}.command.… | schedule.* | config.* ──▶ {prefix}.inbound, which the gateway consumes

The exchange is there from the key's first day, the queues while the organisation trades. What nobody fetches is kept for a
day, and 256 MiB of it at most, in the partner's own queues too; orders beyond 64 MiB are refused. A partner that forgets a
queue, or floods us, would else fill the disk that all plants' messages need.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aiormq.abc import AbstractChannel

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management
from gridfleet.protocol.partner_keys import EXCHANGE, EventKind, event_queue, event_routing_key

__all__ = ["PartnerQueues", "inbound_queue", "settle_partner_vhost"]

_OUTBOUND: Final[dict[str, Any]] = {
    "x-message-ttl": 24 * 3600 * 1000,
    "x-max-length-bytes": 256 * 1024 * 1024,
    "x-overflow": "drop-head",
}
_KEPT: Final = {name.removeprefix("x-"): value for name, value in _OUTBOUND.items()}
"""The same for queues of the partner's own: he may ask for less, not for more."""
_ORDERS: Final = {"max-length-bytes": 64 * 1024 * 1024, "overflow": "reject-publish"}
_MOST_QUEUES: Final = 100
_SHARED_VHOST: Final = "/"
_INBOUND_KEYS: Final = (
    "command.site-setpoint",
    "command.device",
    "command.device.*",
    "command.mode",
    "schedule.*",
    "config.*",
)


class PartnerQueues(NamedTuple):
    """Whose queues, and what the names of the own ones begin with."""

    slug: str
    prefix: str

    @property
    def names(self) -> frozenset[str]:
        """All five."""
        return frozenset({inbound_queue(self.prefix), *(event_queue(self.slug, kind) for kind in EventKind)})


def inbound_queue(prefix: str) -> str:
    """The queue that a partner's orders go to."""
    return f"{prefix}.inbound"


async def settle_partner_vhost(
    management: Management, broker_url: str, vhost: str, queues: PartnerQueues | None, unwanted: Iterable[str] = ()
) -> None:
    """Makes the vhost what it should be: there, with the exchange, with `queues` if any, without the queues `unwanted`.

    What exists already stays, messages included. Raises `httpx.HTTPError` and aiormq's errors when the broker is away.
    """
    await management.enter_vhost(vhost)
    if vhost != _SHARED_VHOST:  # there may be others' queues in it, who are no partners
        await management.put_policy(vhost, "kept", ".*", "queues", _KEPT)
        await management.limit_queues(vhost, _MOST_QUEUES)
    if queues is not None:
        inbound = inbound_queue(queues.prefix)
        await management.put_policy(vhost, inbound, f"^{re.escape(inbound)}$", "queues", _ORDERS, priority=1)
    async with open_channel(broker_url, vhost) as channel:
        await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
        if queues is not None:
            await _declare(channel, queues)
        for name in sorted(set(unwanted) - (queues.names if queues else frozenset())):
            await channel.queue_delete(name)


async def _declare(channel: AbstractChannel, queues: PartnerQueues) -> None:
    for kind in EventKind:
        name = event_queue(queues.slug, kind)
        await channel.queue_declare(name, durable=True, arguments=_OUTBOUND)
        await channel.queue_bind(name, EXCHANGE, routing_key=event_routing_key(queues.slug, kind))
    inbound = inbound_queue(queues.prefix)
    await channel.queue_declare(inbound, durable=True)
    for key in _INBOUND_KEYS:
        await channel.queue_bind(inbound, EXCHANGE, routing_key=f"{queues.slug}.{key}")
