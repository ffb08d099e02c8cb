"""Exchanges, queues, policies and bindings of the vhost `/`, which the legacy keys of all organisations share:

    vcp ──every key──▶ vcp.legacy.inbound ──gateway──▶ vcp.legacy.orders ──{slug}.command.…──▶ {slug}.inbound
    vcp.legacy.events ──{slug}.event.…──▶ vcp.{slug}.event.…, which the partner consumes

Partners publish to `vcp` alone, and `vcp` leads to one queue alone. So whatever routing keys the headers CC and BCC add, which
RabbitMQ before 4.0 does not check, a message arrives there once and nowhere else. The gateway passes it on by its own routing
key, which the broker has checked.
"""

import re
from collections.abc import Iterable
from typing import Final

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management
from gridfleet.kernel.broker.partner_topology import (
    DROPPED,
    DROPPED_PATTERN,
    EVENTS,
    ORDERS,
    OUTBOUND_PATTERN,
    PartnerQueues,
    declare_partner_queues,
    inbound_queue,
)
from gridfleet.protocol.partner_keys import EXCHANGE, LEGACY_VHOST

__all__ = ["LEGACY_EVENTS", "LEGACY_INTAKE", "LEGACY_ORDERS", "settle_legacy_vhost"]

LEGACY_INTAKE: Final = "vcp.legacy.inbound"
LEGACY_ORDERS: Final = "vcp.legacy.orders"
LEGACY_EVENTS: Final = "vcp.legacy.events"


async def settle_legacy_vhost(
    management: Management, broker_url: str, queues: PartnerQueues | None = None, unwanted: Iterable[str] = ()
) -> None:
    """Create or change the vhost so that it has the exchanges, the intake, `queues` if any, and none of the queues `unwanted`.

    Everything else in the vhost stays: it may belong to other programs.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is away or refuses.
    """
    await management.enter_vhost(LEGACY_VHOST)
    await management.put_policy(LEGACY_VHOST, "vcp.events", OUTBOUND_PATTERN, "queues", EVENTS, priority=1)
    await management.put_policy(LEGACY_VHOST, "vcp.dropped", DROPPED_PATTERN, "queues", DROPPED, priority=1)
    orders = [LEGACY_INTAKE] if queues is None else [LEGACY_INTAKE, inbound_queue(queues.prefix)]
    for name in orders:
        await management.put_policy(LEGACY_VHOST, name, f"^{re.escape(name)}$", "queues", ORDERS, priority=1)
    async with open_channel(broker_url, LEGACY_VHOST) as channel:
        for exchange in (EXCHANGE, LEGACY_ORDERS, LEGACY_EVENTS):
            await channel.exchange_declare(exchange, exchange_type="topic", durable=True)
        await channel.queue_declare(LEGACY_INTAKE, durable=True)
        await channel.queue_bind(LEGACY_INTAKE, EXCHANGE, routing_key="#")
        # Bindings of an older release or broker would let one organisation publish into another's queues.
        await management.keep_only_binding(LEGACY_VHOST, EXCHANGE, LEGACY_INTAKE)
        for name in sorted(set(unwanted) - (queues.names if queues else frozenset())):
            await channel.queue_delete(name)
        if queues is not None:
            await declare_partner_queues(channel, queues, events=LEGACY_EVENTS, orders=LEGACY_ORDERS)
