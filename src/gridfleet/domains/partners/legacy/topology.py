"""Exchanges, queues, policies and bindings of the vhost `/`, which the legacy keys of all organisations share:

    vcp ──alternate exchange──▶ vcp.legacy.orders ──{slug}.command.…──▶ {slug}.inbound, which the gateway consumes
    vcp.legacy.events ──{slug}.event.…──▶ vcp.{slug}.event.…, which the partner consumes

Partners can publish only to `vcp`. It has no bindings, so a message goes to its alternate exchange, which a policy names, and
from there to the queue of the organisation in its routing key. Older releases bound `vcp` with `#` to one queue of all
organisations, `LEGACY_INTAKE`. Once this binding is removed, commands are routed the new way; none is lost or copied.
`gridfleet.amqp.legacy_vhost` empties and deletes the old queue.
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
from gridfleet.kernel.broker.queue_types import choose_queue_type, ensure_queue, is_outdated
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST

__all__ = [
    "LEGACY_COMMANDS",
    "LEGACY_EVENTS",
    "LEGACY_INTAKE",
    "MAX_LEGACY_CONNECTIONS",
    "ensure_legacy_vhost",
]

LEGACY_INTAKE: Final = ("vcp.legacy.inbound", "vcp.legacy.inbound.replacing")
"""The queue of all organisations' commands that older releases had, and the one that replaced it for a while."""

LEGACY_COMMANDS: Final = "vcp.legacy.orders"
LEGACY_EVENTS: Final = "vcp.legacy.events"

MAX_LEGACY_CONNECTIONS: Final = 1_000
"""Connections to the vhost, including those of the service and of other programs."""

_MOST_IMPORTANT: Final = 1_000
"""Priority of the policy without which commands would be lost. `/` may have policies of other programs."""


async def ensure_legacy_vhost(
    management: Management,
    broker_url: str,
    queues: PartnerQueues | None = None,
    unwanted: Iterable[str] = (),
    *,
    queue_type: str = "auto",
) -> None:
    """Create or change the vhost so that it has the exchanges and `queues`, but none of the queues `unwanted`.

    Everything else in the vhost stays because it may belong to other programs. Classic queues of the organisation are replaced
    if `queue_type` requires quorum. For that, the organisation's and the service's connections to the vhost are closed.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    await management.enter_vhost(LEGACY_VHOST)
    await management.limit_connections(LEGACY_VHOST, MAX_LEGACY_CONNECTIONS)
    await management.put_policy(LEGACY_VHOST, "vcp.events", OUTBOUND_PATTERN, "queues", EVENTS, priority=1)
    await management.put_policy(LEGACY_VHOST, "vcp.dropped", DROPPED_PATTERN, "queues", DROPPED, priority=1)
    await management.put_policy(
        LEGACY_VHOST,
        "vcp.commands",
        f"^{re.escape(EXCHANGE)}$",
        "exchanges",
        {"alternate-exchange": LEGACY_COMMANDS},
        priority=_MOST_IMPORTANT,
    )
    if queues is not None:
        inbound = inbound_queue(queues.prefix)
        await management.put_policy(LEGACY_VHOST, inbound, f"^{re.escape(inbound)}$", "queues", COMMANDS, priority=1)
    kind = await choose_queue_type(management, queue_type)
    types = await management.queue_types(LEGACY_VHOST)
    wanted = [] if queues is None else list(service_queues(queues, events=LEGACY_EVENTS, commands=LEGACY_COMMANDS))
    outdated = [queue for queue in wanted if is_outdated(queue, types, kind)]
    async with open_channel(broker_url, LEGACY_VHOST) as channel:
        # Topic exchanges, because each organisation has its own queues behind them.
        for exchange in (EXCHANGE, LEGACY_COMMANDS, LEGACY_EVENTS, DROPPED_EXCHANGE):
            await channel.exchange_declare(exchange, exchange_type="topic", durable=True)
        # With the bindings of an older release or broker, one organisation could publish into another's queues.
        await management.keep_only_bindings(LEGACY_VHOST, EXCHANGE, LEGACY_INTAKE)
        for name in sorted(set(unwanted) - (queues.names if queues else frozenset())):
            await channel.queue_delete(name)
        for queue in wanted:
            if queue not in outdated:
                await ensure_queue(channel, queue, kind, types)
    if queues is not None:
        await replace_service_queues(management, broker_url, LEGACY_VHOST, queues.slug, outdated, types, kind)
