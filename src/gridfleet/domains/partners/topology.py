"""Exchange, queues, policies and limits of a partner's vhost:

    vcp (topic) ──{slug}.event.telemetry|status|command-ack|alert──▶ vcp.{slug}.event.…, which the partner consumes
        └── {slug}.command.… | schedule.* | config.* ──▶ {prefix}.inbound, which the gateway consumes
    vcp.{slug}.event.… when full or a day old ──vcp.dropped──▶ vcp.{slug}.dropped, in which the gateway counts them

The exchange exists as long as the key, the queues while trading is enabled. All vhosts share the broker's disk and
memory. Therefore policies limit every queue, including the partner's own: one day and 256 MiB (less if the organisation has
many keys), and 64 MiB of waiting commands. A policy applies to a queue only if the queue's type supports every setting in it,
so streams have their own policy.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final, NamedTuple

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import UNREADABLE, Management, QueueFacts
from gridfleet.kernel.broker.queue_types import (
    DELIVERY_LIMIT,
    QueueType,
    ServiceQueue,
    choose_queue_type,
    ensure_queue,
    is_outdated,
    replace_queue,
)
from gridfleet.protocol.partner_routes import EXCHANGE, FAMILIES, EventKind, event_queue, event_routing_key

__all__ = [
    "COMMANDS",
    "DROPPED",
    "DROPPED_EXCHANGE",
    "DROPPED_PATTERN",
    "EVENTS",
    "KEPT",
    "MAX_CONNECTIONS",
    "MAX_OWN_QUEUES",
    "MAX_PRIORITY",
    "MOST_BYTES",
    "OUTBOUND_PATTERN",
    "PartnerQueues",
    "dropped_queue",
    "ensure_partner_vhost",
    "forbidden_argument",
    "has_current_bounds",
    "inbound_names",
    "inbound_queue",
    "queue_bytes_of",
    "remove_former_queues",
    "remove_partner_vhost",
    "replace_service_queues",
    "service_queues",
    "vhosts_with_outdated_queues",
]

MAX_OWN_QUEUES: Final = 3
"""Queues that a key may declare in addition to the service's.

A message that n dead-letter queues pass on to each other becomes up to e × n! messages: 16 with three queues, a million with
nine.
"""

MAX_CONNECTIONS: Final = 32
"""Connections to a key's vhost, including those of the service. Each can have 128 channels, which use the broker's memory."""

MAX_PRIORITY: Final = 10
"""For each priority of a queue, the broker keeps a separate internal queue."""

MAX_CONSUMER_TIMEOUT: Final = 30 * 60 * 1000
"""Milliseconds, the broker's default. Until then, the messages that a consumer has not acknowledged have no bound."""

_MIB: Final = 1024 * 1024
MOST_BYTES: Final = 256 * _MIB
_OUTBOUND: Final[dict[str, Any]] = {
    "x-message-ttl": 24 * 3600 * 1000,
    "x-max-length-bytes": MOST_BYTES,
    "x-overflow": "drop-head",
}
# Only bodies count as bytes, so the number limits messages without a body.
KEPT: Final = {name.removeprefix("x-"): value for name, value in _OUTBOUND.items()} | {"max-length": 1_000_000}
COMMANDS: Final = {"max-length-bytes": 64 * _MIB, "max-length": 50_000, "overflow": "reject-publish"}
DROPPED_EXCHANGE: Final = "vcp.dropped"
EVENTS: Final = KEPT | {"dead-letter-exchange": DROPPED_EXCHANGE}
DROPPED: Final = {"max-length-bytes": 16 * _MIB, "max-length": 100_000, "overflow": "drop-head"}
# Without a limit, a message that a program returns is written to the queue's log again, and the log is kept from the oldest
# message in use on. Any limit prevents this. Events must not be lost, so it is that of the service's own queues.
_QUORUM: Final = KEPT | {"delivery-limit": DELIVERY_LIMIT}
_MOST: Final = {"x-max-priority": MAX_PRIORITY, "x-consumer-timeout": MAX_CONSUMER_TIMEOUT}
_EVERY: Final = ".*"
OUTBOUND_PATTERN: Final = r"^vcp\.[^.]+\.event\.[^.]+$"
DROPPED_PATTERN: Final = r"^vcp\.[^.]+\.dropped$"


class PartnerQueues(NamedTuple):
    """The organisation that owns the queues, and the prefix of its inbound queue's name."""

    slug: str
    prefix: str

    @property
    def names(self) -> frozenset[str]:
        """Names of all queues of the service."""
        return frozenset(
            {inbound_queue(self.prefix), dropped_queue(self.slug), *(event_queue(self.slug, kind) for kind in EventKind)}
        )


def inbound_queue(prefix: str) -> str:
    """Return the name of the queue that receives a partner's commands."""
    return f"{prefix}.inbound"


def inbound_names(prefix: str) -> frozenset[str]:
    """Return the names of that queue and of the one that takes its messages while it is replaced."""
    inbound = ServiceQueue(inbound_queue(prefix), EXCHANGE, ())
    return frozenset({inbound.name, inbound.spare.name})


def dropped_queue(slug: str) -> str:
    """Return the name of the queue in which the gateway counts events that event queues dropped."""
    return f"{EXCHANGE}.{slug}.dropped"


def forbidden_argument(arguments: dict[str, Any]) -> str | None:
    """Return the first argument that a partner's own queue must not have; None if there is none.

    The plugin `gridfleet_bounds` refuses them too. RabbitMQ itself does not check arguments, and no policy overrides these:

    - dead-lettered messages pass no topic check and multiply from queue to queue,
    - a full queue that rejects makes the broker refuse the service's events, for the organisation's other keys too,
    - each priority adds an internal queue,
    - messages that are not acknowledged do not count for a limit, and from RabbitMQ 3.12 on a queue sets how long they stay.

    Arguments that cannot be read make the broker's list of all queues fail.
    """
    for name, value in arguments.items():
        if name in ("x-dead-letter-exchange", UNREADABLE):
            return name
        if name == "x-overflow" and value != "drop-head":
            return name
        # Of two arguments with one name, the broker returns the last, which may be anything.
        if name in _MOST and not (isinstance(value, int) and value <= _MOST[name]):
            return name
    return None


def queue_bytes_of(keys: int) -> int:
    """Return how many bytes each event queue and each own queue keeps, for an organisation with that many keys at the broker.

    All of them together keep at most what those of four keys do (docs/decisions/0445). Halves, so that few new keys change the
    vhosts of the others.
    """
    return MOST_BYTES >> max(0, (keys - 1).bit_length() - 2)


def _policies(queue_bytes: int) -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Return pattern, priority and definition of a vhost's policies by name."""
    size = {"max-length-bytes": queue_bytes}
    # A stream removes whole segments, but never the one it writes to. Both limits together keep it below the size.
    segment = queue_bytes // 16
    streams = {"max-length-bytes": queue_bytes - segment, "max-age": "1D", "stream-max-segment-size-bytes": segment}
    return {
        "kept": (_EVERY, -1, KEPT | size),
        "kept-quorum": (_EVERY, 0, _QUORUM | size),
        "kept-streams": (_EVERY, 0, streams),
        "vcp.events": (OUTBOUND_PATTERN, 1, EVENTS | size),
        "vcp.dropped": (DROPPED_PATTERN, 1, DROPPED),
    }


def has_current_bounds(policies: dict[str, dict[str, Any]], limits: dict[str, int], queue_bytes: int) -> bool:
    """Return whether a vhost has this release's policies, with this size of queues, and connection limit."""
    return limits.get("max-connections") == MAX_CONNECTIONS and all(
        policies.get(name) == definition for name, (_, _, definition) in _policies(queue_bytes).items()
    )


async def ensure_partner_vhost(
    management: Management,
    broker_url: str,
    vhost: str,
    queues: PartnerQueues | None,
    unwanted: Iterable[str] = (),
    *,
    queue_type: str = "auto",
    queue_bytes: int = MOST_BYTES,
) -> None:
    """Create or change the vhost so that it has the exchange, `queues` if any, and none of the queues `unwanted`.

    Each event queue and each queue of the partner keeps at most `queue_bytes` (see `queue_bytes_of`).

    Existing objects and their messages are kept. Classic queues are replaced if `queue_type` requires quorum. For that, the
    connections to the vhost are closed.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    await management.enter_vhost(vhost)
    wanted = queues.names if queues else frozenset[str]()
    unwanted = frozenset(unwanted) - wanted
    await management.limit_connections(vhost, MAX_CONNECTIONS)
    kind = await choose_queue_type(management, queue_type)
    types = await management.queue_types(vhost)
    declared = [] if queues is None else list(service_queues(queues))
    outdated = [queue for queue in declared if is_outdated(queue, types, kind)]
    for name, (pattern, priority, definition) in _policies(queue_bytes).items():
        await management.put_policy(vhost, name, pattern, "queues", definition, priority=priority)
    own = types.keys() - wanted - unwanted - {queue.spare.name for queue in declared}
    # Queues from before this limit stay. They must not prevent the declaration of the service's queues.
    most_own = max(MAX_OWN_QUEUES, len(own))
    await management.limit_queues(vhost, len(wanted) + most_own + bool(outdated))
    if queues is not None:
        inbound = inbound_queue(queues.prefix)
        await management.put_policy(vhost, inbound, f"^{re.escape(inbound)}$", "queues", COMMANDS, priority=1)
    try:
        async with open_channel(broker_url, vhost) as channel:
            await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
            await channel.exchange_declare(DROPPED_EXCHANGE, exchange_type="topic", durable=True)
            for name in sorted(unwanted):
                await channel.queue_delete(name)
            for queue in declared:
                if queue not in outdated:
                    await ensure_queue(channel, queue, kind, types)
        if queues is not None:
            await replace_service_queues(management, broker_url, vhost, queues.slug, outdated, types, kind)
    finally:
        if queues is not None:
            if outdated:
                await management.limit_queues(vhost, len(wanted) + most_own)
            known = types.keys() | {name for queue in declared for name in (queue.name, queue.spare.name)}
            await _remove_surplus(management, vhost, queues.slug, known, most_own - len(own))


async def remove_former_queues(management: Management, vhost: str, prefix: str) -> list[str]:
    """Delete the partner's own queues whose names do not begin with `prefix`, because they were declared under another one.

    The partner has no access to them any more, and they count towards its limit. Exclusive queues end with their connections.

    Returns:
        The names of the deleted queues.

    Raises:
        httpx.HTTPError: The broker is unavailable.
    """
    former = [
        queue.name
        for queue in await management.queues(vhost)
        if not queue.exclusive and not queue.name.startswith((f"{prefix}.", f"{EXCHANGE}."))
    ]
    for name in former:
        await management.delete_queue(vhost, name)
    return former


async def _remove_surplus(management: Management, vhost: str, slug: str, known: Set[str], room: int) -> None:
    """Delete the queues that the partner declared in the room for the service's queues, until these existed.

    It would keep them, and each time that trading is enabled, it could add more. If there are at most `room` that are not in
    `known`, they are allowed.
    """
    new = [queue for queue in await management.queues(vhost) if queue.name not in known]
    if len(new) <= room:
        return
    if any(queue.exclusive for queue in new):
        await management.close_connections_in(vhost, slug)
    for queue in new:
        if not queue.exclusive:
            await management.delete_queue(vhost, queue.name)


async def replace_service_queues(
    management: Management,
    broker_url: str,
    vhost: str,
    slug: str,
    outdated: Iterable[ServiceQueue],
    types: Mapping[str, str],
    kind: QueueType,
) -> None:
    """Replace an organisation's outdated queues. Closes its connections and the service's connections to the vhost.

    Consumers hold messages, prevent the deletion of a queue, and do not move to the new queue automatically.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    if not (outdated := list(outdated)):
        return
    await _close_connections(management, vhost, slug)
    for queue in outdated:
        await replace_queue(broker_url, vhost, queue, types, kind)
    await _close_connections(management, vhost, slug)


async def remove_partner_vhost(management: Management, vhost: str, username: str) -> None:
    """Close the user's connections to the vhost, then delete the vhost. Has no effect if it is missing.

    Deleting a vhost deletes its queues one by one before it closes connections. This takes minutes while dead letters multiply
    in it. Without the exchange no message is routed, so the multiplication ends and the queues can be deleted.

    Raises:
        httpx.HTTPError: The broker is unavailable, or a deletion timed out. Completed deletions are not undone.
    """
    await management.close_connections_in(vhost, username)
    await management.delete_exchange(vhost, EXCHANGE)
    queues = await management.queues(vhost)
    # Exclusive queues were deleted with their connections.
    await asyncio.gather(*(management.delete_queue(vhost, queue.name) for queue in queues if not queue.exclusive))
    await management.delete_vhost(vhost)


async def _close_connections(management: Management, vhost: str, username: str) -> None:
    await management.close_connections_in(vhost, username)
    await management.close_own_connections_in(vhost)


def service_queues(queues: PartnerQueues, *, events: str = EXCHANGE, commands: str = EXCHANGE) -> Iterator[ServiceQueue]:
    """Yield an organisation's queues with their bindings to the exchanges of events and commands."""
    for kind in EventKind:
        yield ServiceQueue(event_queue(queues.slug, kind), events, (event_routing_key(queues.slug, kind),), _OUTBOUND)
    keys = tuple(f"{queues.slug}.{binding}" for family in FAMILIES for binding in family.bindings)
    yield ServiceQueue(dropped_queue(queues.slug), DROPPED_EXCHANGE, (f"{queues.slug}.event.*",))
    yield ServiceQueue(inbound_queue(queues.prefix), commands, keys)


def vhosts_with_outdated_queues(queues: Iterable[QueueFacts], kind: QueueType) -> Iterator[str]:
    """Yield the vhosts that have a classic queue of the service although the deployment requires quorum."""
    for queue in queues:
        if kind == "quorum" and queue.type == "classic" and (queue.name.startswith("vcp.") or queue.name.endswith(".inbound")):
            yield queue.vhost
