"""Exchanges, queues, policies and bindings of the vhost `/`, which the legacy keys of all organisations share:

    vcp ──every key──▶ vcp.legacy.inbound ──gateway──▶ vcp.legacy.orders ──{slug}.command.…──▶ {slug}.inbound
    vcp.legacy.events ──{slug}.event.…──▶ vcp.{slug}.event.…, which the partner consumes

Partners can publish only to `vcp`, and `vcp` is bound to one queue only. RabbitMQ before 4.0 does not check the routing keys in
the headers CC and BCC. Whatever keys they add, a message arrives in this queue once and nowhere else. The gateway forwards it
by its own routing key, which the broker has checked.
"""

import re
from collections.abc import Iterable
from typing import Final

from gridfleet.domains.partners.topology import (
    COMMANDS,
    DROPPED,
    DROPPED_EXCHANGE,
    DROPPED_PATTERN,
    EVENTS,
    OUTBOUND_PATTERN,
    PartnerQueues,
    inbound_queue,
    replace_service_queues,
    service_queues,
)
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management
from gridfleet.kernel.broker.queue_types import ServiceQueue, choose_queue_type, ensure_queue, is_outdated, replace_queue
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST

__all__ = [
    "LEGACY_COMMANDS",
    "LEGACY_EVENTS",
    "LEGACY_INTAKE",
    "MAX_LEGACY_CONNECTIONS",
    "ensure_legacy_vhost",
    "replace_legacy_intake",
]

LEGACY_INTAKE: Final = "vcp.legacy.inbound"
LEGACY_COMMANDS: Final = "vcp.legacy.orders"
LEGACY_EVENTS: Final = "vcp.legacy.events"

MAX_LEGACY_CONNECTIONS: Final = 1_000
"""Connections to the vhost, including those of the service and of other programs."""

_INTAKE: Final = ServiceQueue(LEGACY_INTAKE, EXCHANGE, ("#",))


async def ensure_legacy_vhost(
    management: Management,
    broker_url: str,
    queues: PartnerQueues | None = None,
    unwanted: Iterable[str] = (),
    *,
    queue_type: str = "auto",
) -> None:
    """Create or change the vhost so that it has the exchanges, the intake and `queues`, but none of the queues `unwanted`.

    Everything else in the vhost stays because it may belong to other programs. Classic queues of the organisation are replaced
    if `queue_type` requires quorum. For that, the organisation's and the service's connections to the vhost are closed. Only
    `replace_legacy_intake` replaces the intake.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    await management.enter_vhost(LEGACY_VHOST)
    await management.limit_connections(LEGACY_VHOST, MAX_LEGACY_CONNECTIONS)
    await management.put_policy(LEGACY_VHOST, "vcp.events", OUTBOUND_PATTERN, "queues", EVENTS, priority=1)
    await management.put_policy(LEGACY_VHOST, "vcp.dropped", DROPPED_PATTERN, "queues", DROPPED, priority=1)
    commands = [LEGACY_INTAKE] if queues is None else [LEGACY_INTAKE, inbound_queue(queues.prefix)]
    for name in commands:
        await management.put_policy(LEGACY_VHOST, name, f"^{re.escape(name)}$", "queues", COMMANDS, priority=1)
    kind = await choose_queue_type(management, queue_type)
    types = await management.queue_types(LEGACY_VHOST)
    wanted = [] if queues is None else list(service_queues(queues, events=LEGACY_EVENTS, commands=LEGACY_COMMANDS))
    outdated = [queue for queue in wanted if is_outdated(queue, types, kind)]
    async with open_channel(broker_url, LEGACY_VHOST) as channel:
        # Topic exchanges, because each organisation has its own queues behind them.
        for exchange in (EXCHANGE, LEGACY_COMMANDS, LEGACY_EVENTS, DROPPED_EXCHANGE):
            await channel.exchange_declare(exchange, exchange_type="topic", durable=True)
        if not is_outdated(_INTAKE, types, kind):
            await ensure_queue(channel, _INTAKE, kind, types)
        # With the bindings of an older release or broker, one organisation could publish into another's queues.
        await management.keep_only_bindings(LEGACY_VHOST, EXCHANGE, {LEGACY_INTAKE, _INTAKE.spare.name})
        for name in sorted(set(unwanted) - (queues.names if queues else frozenset())):
            await channel.queue_delete(name)
        for queue in wanted:
            if queue not in outdated:
                await ensure_queue(channel, queue, kind, types)
    if queues is not None:
        await replace_service_queues(management, broker_url, LEGACY_VHOST, queues.slug, outdated, types, kind)


async def replace_legacy_intake(management: Management, broker_url: str, *, queue_type: str = "auto") -> None:
    """Replace the intake if it is outdated. Only the process that may consume it calls this, before it consumes.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    kind = await choose_queue_type(management, queue_type)
    types = await management.queue_types(LEGACY_VHOST)
    if is_outdated(_INTAKE, types, kind):
        await replace_queue(broker_url, LEGACY_VHOST, _INTAKE, types, kind)
