"""The vhosts of keys at the broker, updated by effects of changes to the keys.

The effect `UPDATE` names a key but no action: its worker reads the key and gives the vhost the state that it should have at
that time. Effects may therefore come late, twice and in any order. The end of a key has two other kinds, because removing one
vhost can take up to half a minute: `CLOSE_CONNECTIONS`, and `REMOVE`, which does the same as `UPDATE` in workers of its own.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from gridfleet.domains.partners import store
from gridfleet.domains.partners.broker_keys import store as broker_keys
from gridfleet.domains.partners.legacy import store as legacy
from gridfleet.domains.partners.legacy.topology import LEGACY_COMMANDS, LEGACY_EVENTS
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.scopes import LEGACY_VHOST
from gridfleet.domains.partners.topology import DROPPED_EXCHANGE, PartnerQueues, queue_bytes_of
from gridfleet.domains.telemetry.clocks import is_clock_behind
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.outbox import waiting_values
from gridfleet.kernel.outbox import enqueue
from gridfleet.protocol.partner_routes import EXCHANGE

__all__ = [
    "CLOSE_CONNECTIONS",
    "REMOVE",
    "UPDATE",
    "WantedVhost",
    "expire_due",
    "legacy_slugs",
    "queue_bytes_by_vhost",
    "queue_ending",
    "queue_update_unless_waiting",
    "queue_updates_except",
    "queue_updates_of_missing",
    "queue_vhost_update",
    "restore_ended",
    "wanted_queue_bytes",
    "wanted_queues",
    "wanted_vhost",
]

UPDATE: Final = "partners.settle_vhost"
"""A kind of effect. `wanted_vhost` reads its payload."""

REMOVE: Final = "partners.remove_vhost"
"""A kind of effect with the payload of `UPDATE`, for a key that ended."""

CLOSE_CONNECTIONS: Final = "partners.close_connections"
"""A kind of effect. Its payload is {organizationId, vhost, slug: the broker user name}."""

_RACING_LOGINS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 2))
"""Delays of repeated effects: a login that was answered just before a key's end may become a connection just after it."""

_CLOSINGS: Final = (*_RACING_LOGINS, timedelta(seconds=15))
"""Delays of the closings of connections: a client may complete its login ten seconds after it began, and the broker caches
for a minute that the key may enter the vhost."""

_UNPROVEN: Final = timedelta(minutes=2)
"""Maximum time for the proof of a new key. Older unproved keys were left by a process that was killed."""


class WantedVhost(NamedTuple):
    """The state that a vhost should have.

    Attributes:
        vhost: The name of the vhost.
        slug: The slug of the key's organisation, which is the user name at the broker.
        is_needed: Whether the key may use the broker, so that the vhost is kept. Otherwise the vhost is removed; in the shared
            vhost of the legacy keys only the connections of `slug` are closed.
        queues: The queues that must exist.
        unwanted: The names of queues that must not exist.
        prefix: The beginning of the names of the partner's own queues.
        queue_bytes: The most bytes that each of these and of the event queues keeps.
    """

    vhost: str
    slug: str
    is_needed: bool
    queues: PartnerQueues | None
    unwanted: frozenset[str]
    prefix: str
    queue_bytes: int

    @property
    def is_shared(self) -> bool:
        """Whether other keys use the vhost too."""
        return self.vhost == LEGACY_VHOST


async def queue_vhost_update(db: Connection, key: AmqpKey, unwanted: Sequence[str] = (), *, kind: str = UPDATE) -> None:
    """Queue an update of the key's vhost for after the commit.

    The update runs twice, the second time two seconds later, because a login may have been accepted just before the commit.

    Args:
        key: The key whose vhost is updated.
        unwanted: Names of queues to remove, unless the organisation needs them when the update runs.
        kind: `UPDATE`, or `REMOVE` for a key that was revoked or has expired.
    """
    payload = {
        "keyId": str(key.id),
        "vhost": key.vhost,
        "slug": key.slug,
        "organizationId": str(key.organization_id),
        "unwanted": list(unwanted),
    }
    for delay in _RACING_LOGINS:
        await enqueue(db, kind, payload, delay=delay)


async def queue_ending(db: Connection, key: AmqpKey) -> None:
    """Close the connections of a key that ended, and remove its vhost, once the transaction has committed."""
    payload = {"organizationId": str(key.organization_id), "vhost": key.vhost, "slug": key.slug}
    for delay in _CLOSINGS:
        await enqueue(db, CLOSE_CONNECTIONS, payload, delay=delay)
    await queue_vhost_update(db, key, kind=REMOVE)


async def wanted_vhost(db: Connection, payload: dict[str, Any]) -> WantedVhost:
    """Return the state that the vhost should have now, and lock the vhost until the transaction ends.

    Two updates at once would close each other's connections to the vhost while queues are replaced.
    """
    vhost, slug, unwanted = payload["vhost"], payload["slug"], frozenset(payload["unwanted"])
    await broker_keys.lock_vhost(db, vhost)
    organization_id = UUID(payload["organizationId"])
    is_needed = await broker_keys.find_amqp(db, UUID(payload["keyId"])) is not None
    queues = await _queues(db, organization_id, slug, vhost)
    if vhost == LEGACY_VHOST:
        # Here, names with the organisation's prefix may belong to another organisation, and the slug too after its deletion.
        named, owner = PartnerQueues(slug, slug).names, await legacy.find_owner(db, slug)
        if owner is None:
            queues, unwanted = None, named
        elif owner != organization_id:
            queues, unwanted = None, frozenset()
        elif unwanted:
            unwanted = named
    prefix = await store.find_prefix(db, organization_id)
    unwanted -= queues.names if queues else frozenset()
    return WantedVhost(vhost, slug, is_needed, queues, unwanted, prefix, await _queue_bytes(db, organization_id))


async def wanted_queues(db: Connection, key: AmqpKey) -> PartnerQueues | None:
    """Return the queues that a key's vhost should have; None while its organisation does not trade."""
    return await _queues(db, key.organization_id, key.slug, key.vhost)


async def wanted_queue_bytes(db: Connection, key: AmqpKey) -> int:
    """Return how many bytes each event queue and each own queue in a key's vhost may keep."""
    return await _queue_bytes(db, key.organization_id)


async def _queue_bytes(db: Connection, organization_id: UUID) -> int:
    return queue_bytes_of(await broker_keys.count_at_broker(db, organization_id))


async def queue_bytes_by_vhost(db: Connection) -> dict[str, int]:
    """Return how many bytes each queue keeps, by vhost, for all organisations."""
    return {vhost: queue_bytes_of(keys) for vhost, keys in (await broker_keys.counts_at_broker(db)).items()}


async def _queues(db: Connection, organization_id: UUID, slug: str, vhost: str) -> PartnerQueues | None:
    found = await store.find_queues(db, organization_id)
    return None if found is None or not found.enabled else _queues_in(vhost, slug, found.prefix)


def _queues_in(vhost: str, slug: str, prefix: str) -> PartnerQueues:
    # In the vhost that all legacy keys share, only the slug separates organisations.
    return PartnerQueues(slug, slug if vhost == LEGACY_VHOST else prefix)


async def legacy_slugs(db: Connection) -> set[str]:
    """Return the slugs of the organisations that have a live key in the vhost that legacy keys share."""
    return await legacy.slugs(db)


async def expire_due(db: Connection) -> int:
    """End the broker access of expired keys and delete keys that were never proved. Returns the number of keys."""
    ended = await broker_keys.end_expired(db)
    ended += await broker_keys.delete_all_unproven(db, _UNPROVEN)
    for key in ended:
        await queue_ending(db, key)
    return len(ended)


async def restore_ended(db: Connection) -> int:
    """Restore the broker access of keys that has ended while a clock was ahead. Returns the number of keys.

    If the clock is behind now, nothing changes: the access of all keys that have expired would seem to have ended too early.
    """
    if await is_clock_behind(db):
        return 0
    restored = await broker_keys.restore_ended(db)
    for key in restored:
        await queue_vhost_update(db, key)
    return len(restored)


async def queue_updates_except(db: Connection, complete: Mapping[str, Set[str]]) -> None:
    """Queue an update of the shared vhost, and of each vhost that keys need and that is not complete.

    Args:
        complete: The names of the exchanges and queues that vhosts have, by vhost. A vhost that must be updated is left out.
    """
    for key in await _without_some(db, {vhost: names for vhost, names in complete.items() if vhost != LEGACY_VHOST}):
        await queue_vhost_update(db, key)


async def waiting_updates(db: Connection) -> Set[str]:
    """Return the ids of the keys with two updates in the queue. Keys of several organisations may share a vhost.

    Updates are queued in pairs, and those of a vhost run one after the other. A single one may be running already, and have
    read what was there before a change.
    """
    return await waiting_values(db, UPDATE, "keyId", len(_RACING_LOGINS))


async def queue_update_unless_waiting(db: Connection, key: AmqpKey) -> None:
    """Queue an update of the key's vhost, which lacks a queue, unless one is waiting already."""
    if str(key.id) not in await waiting_updates(db):
        await queue_vhost_update(db, key)


async def queue_updates_of_missing(db: Connection, complete: Mapping[str, Set[str]]) -> int:
    """Queue an update of each vhost that keys need, that is not complete and that has no waiting update.

    Args:
        complete: As for `queue_updates_except`.

    Returns:
        The number of keys with such a vhost.
    """
    missing = await _without_some(db, complete)
    waiting = await waiting_updates(db) if missing else frozenset()
    missing = [key for key in missing if str(key.id) not in waiting]
    for key in missing:
        await queue_vhost_update(db, key)
    return len(missing)


async def _without_some(db: Connection, complete: Mapping[str, Set[str]]) -> list[AmqpKey]:
    """Return the keys whose vhost lacks an exchange or a queue."""
    prefixes = await store.list_prefixes(db)
    keys = await broker_keys.list_amqp(db)
    return [
        key for key in keys if not _required(key, prefixes.get(key.organization_id)) <= complete.get(key.vhost, frozenset())
    ]


def _required(key: AmqpKey, prefix: str | None) -> frozenset[str]:
    """Return the names of the exchanges and queues that the key's vhost must have. `prefix` None: the queues are disabled."""
    exchanges = {EXCHANGE, DROPPED_EXCHANGE} | ({LEGACY_COMMANDS, LEGACY_EVENTS} if key.vhost == LEGACY_VHOST else set())
    return frozenset(exchanges) | (_queues_in(key.vhost, key.slug, prefix).names if prefix is not None else frozenset())
