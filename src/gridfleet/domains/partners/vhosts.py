"""The keys' vhosts at the broker, as effects of what happens to the keys.

`SETTLE` names a key and says nothing about what to do: whoever carries it out looks at the key and makes the vhost what it
should be by then. So effects may come late, twice and in any order. The connections of a key that ended are closed by an effect
of a kind of its own, since removing one vhost can take as long as half a minute.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from gridfleet.domains.partners import store
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.scopes import LEGACY_VHOST
from gridfleet.kernel.broker.partner_topology import PartnerQueues
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.outbox import enqueue

__all__ = [
    "CLOSE_CONNECTIONS",
    "SETTLE",
    "WantedVhost",
    "expire_due",
    "legacy_slugs",
    "queue_ending",
    "queue_settling",
    "settle_all_but",
    "wanted_queues",
    "wanted_vhost",
]

SETTLE: Final = "partners.settle_vhost"
"""The kind of effect; its payload is for `wanted_vhost`."""

CLOSE_CONNECTIONS: Final = "partners.close_connections"
"""The kind of effect; its payload is {vhost, slug: the broker user name}."""

_RACING_LOGINS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 2))
"""A login that was answered just before a key's end may become a connection just after it."""

_SYSTEM: Final = SystemScope("a new key gets its vhost")
_UNPROVEN: Final = timedelta(minutes=2)
"""How long the proof of a new key may take: what is older was left by a process that was killed."""


class WantedVhost(NamedTuple):
    """What a vhost should be. `stands`: the key lives, so the vhost does; else it goes, or in the legacy one, which all such
    keys share, the connections of `slug`. `queues` that must be there, names of those that must not."""

    vhost: str
    slug: str
    stands: bool
    queues: PartnerQueues | None
    unwanted: frozenset[str]

    @property
    def is_shared(self) -> bool:
        """Whether other keys live in it too."""
        return self.vhost == LEGACY_VHOST


async def queue_settling(db: Connection, key: AmqpKey, unwanted: Sequence[str] = ()) -> None:
    """Has the key's vhost looked after once the transaction has committed. `unwanted`: queues to remove, if the organisation
    does not want them after all."""
    payload = {
        "keyId": str(key.id),
        "vhost": key.vhost,
        "slug": key.slug,
        "organizationId": str(key.organization_id),
        "unwanted": list(unwanted),
    }
    for delay in _RACING_LOGINS:
        await enqueue(db, SETTLE, payload, delay=delay)


async def queue_ending(db: Connection, key: AmqpKey) -> None:
    """Close the connections of a key that ended, and remove its vhost, once the transaction has committed."""
    for delay in _RACING_LOGINS:
        await enqueue(db, CLOSE_CONNECTIONS, {"vhost": key.vhost, "slug": key.slug}, delay=delay)
    await queue_settling(db, key)


async def wanted_vhost(db: Connection, system: SystemScope, payload: dict[str, Any]) -> WantedVhost:
    """Return what the vhost should be now. Until the transaction ends, others wait here for the same vhost.

    Two settlements at once close each other's connections to the vhost while queues are replaced.
    """
    vhost, slug, unwanted = payload["vhost"], payload["slug"], frozenset(payload["unwanted"])
    await store.lock_vhost(db, system, vhost)
    organization_id = UUID(payload["organizationId"])
    stands = await store.find_amqp(db, system, UUID(payload["keyId"])) is not None
    queues = await _queues(db, system, organization_id, slug, vhost)
    if vhost == LEGACY_VHOST and unwanted:
        # Names with the organisation's prefix may be another organisation's here.
        unwanted = PartnerQueues(slug, slug).names
    if vhost == LEGACY_VHOST and not stands and not await store.has_amqp_in(db, system, organization_id, vhost):
        queues, unwanted = None, PartnerQueues(slug, slug).names
    return WantedVhost(vhost, slug, stands, queues, unwanted - (queues.names if queues else frozenset()))


async def wanted_queues(db: Connection, key: AmqpKey) -> PartnerQueues | None:
    """The queues that a key's vhost should have; None while its organisation does not trade."""
    return await _queues(db, _SYSTEM, key.organization_id, key.slug, key.vhost)


async def _queues(db: Connection, system: SystemScope, organization_id: UUID, slug: str, vhost: str) -> PartnerQueues | None:
    found = await store.find_queues(db, system, organization_id)
    if found is None or not found.enabled:
        return None
    # In the vhost that all legacy keys share only the slug keeps organisations apart.
    return PartnerQueues(slug, slug if vhost == LEGACY_VHOST else found.prefix)


async def legacy_slugs(db: Connection, system: SystemScope) -> set[str]:
    """Return the slugs of the organisations that have a live key in the vhost that legacy keys share."""
    return await store.legacy_slugs(db, system)


async def expire_due(db: Connection, system: SystemScope) -> int:
    """Shuts the broker to keys that have expired, and forgets those that were never proved; how many there were."""
    now = utc_now()
    ended = await store.end_expired(db, system, now)
    ended += await store.forget_unproven(db, system, now - _UNPROVEN)
    for key in ended:
        await queue_ending(db, key)
    return len(ended)


async def settle_all_but(db: Connection, system: SystemScope, settled: set[str]) -> None:
    """Queue the settlement of the vhosts that keys need and that are not `settled` at the broker."""
    for key in await store.list_amqp(db, system):
        if key.vhost not in settled or key.vhost == LEGACY_VHOST:
            await queue_settling(db, key)
