"""Decisions on the broker's four authorisation requests about a partner: login, vhost, resource, topic.

A partner's user name is its organisation's slug, its password the key. The answer to the login carries the tag
`key-<key id>`, by which the broker identifies the key in its other requests.
"""

import re
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.partners import key_text
from gridfleet.domains.partners import store as keys
from gridfleet.domains.partners.amqp_access import store
from gridfleet.domains.partners.broker_keys import store as broker_keys
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.queues import queue_prefix
from gridfleet.domains.partners.rest_access import NOTED_EVERY
from gridfleet.domains.partners.scopes import AMQP_SCOPES, LEGACY_VHOST, WRITE_SCOPES, Scope
from gridfleet.domains.partners.topology import inbound_names
from gridfleet.kernel.addresses import is_within
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.protocol.partner_routes import EXCHANGE, FAMILIES, EventKind, event_queue, event_routing_key

__all__ = [
    "AdmittedKey",
    "Rights",
    "enter_vhost",
    "find_rights",
    "is_key",
    "is_own_queue",
    "key_of_tags",
    "log_in",
    "may_bind",
    "may_publish",
    "may_use_resource",
    "may_use_topic",
]

_TAG: Final = "key-"
_PROOF: Final = "proof"
_MOST_REFUSALS_A_MINUTE: Final = 60
"""Maximum audit events per minute for refusals of one organisation, and for refusals of unknown keys together."""


def is_key(password: str | None) -> bool:
    """Return whether the password looks like an API key."""
    return password is not None and password.startswith(key_text.MARK)


def key_of_tags(tags: str) -> UUID | None:
    """Return the key id in the broker's tags, which spaces or commas separate. None for users that are not partners."""
    for tag in re.split(r"[ ,]+", tags):
        if tag.startswith(_TAG):
            try:
                return UUID(tag.removeprefix(_TAG))
            except ValueError:
                return None
    return None


class AdmittedKey(NamedTuple):
    """A successful login. The broker repeats `tags` in its other requests."""

    key_id: UUID
    tags: str


async def log_in(db: Connection, user_name: str, password: str | None) -> AdmittedKey | str:
    """Return the admitted login of the key, or the reason for the refusal. Each refusal is recorded as an audit event."""
    digest = None if password is None else key_text.broker_digest_of(password)
    key = None if digest is None else await store.find(db, digest)
    reason = "bad key" if key is None else _refusal(key, user_name)
    if key is not None and reason is None:
        # The login that proves a key is checked less strictly. Its own tag keeps the broker from reusing the cached answer for
        # later logins.
        return AdmittedKey(key.id, f"{_TAG}{key.id}" if key.is_proven else f"{_TAG}{key.id} {_PROOF}")
    await _record_refusal(db, key, reason or "", ip=None)
    return reason or ""


async def enter_vhost(db: Connection, key_id: UUID, user_name: str, vhost: str, ip: str, client_id: str | None) -> str | None:
    """Return why the key may not enter the vhost; None if it may.

    Refusals and the key's first connection are recorded as audit events.
    """
    key = await store.find_by_id(db, key_id)
    if key is None:
        return "bad key"
    reason = _refusal(key, user_name)
    if reason is None and (vhost != key.vhost or client_id is not None):
        reason = "wrong vhost"
    # The service itself uses a key that is not proved yet, possibly from an address that the key does not allow. No other
    # program has the key.
    if reason is None and key.is_proven and key.allowed_ips and not is_within(ip, key.allowed_ips):
        reason = "address not allowed"
    if reason is not None:
        await _record_refusal(db, key, reason, ip)
    elif key.is_proven:
        await keys.note_use(db, key.id, NOTED_EVERY)
        if not key.is_known_at_broker and await store.note_connection(db, key.id):
            await _record(db, Event.PARTNER_CONNECTED, key, {"vhost": vhost}, ip)
    return reason


class Rights(NamedTuple):
    """The rights of an open connection. `prefix` begins the names of the organisation's own queues."""

    key: AmqpKey
    prefix: str


async def find_rights(db: Connection, key_id: UUID) -> Rights | None:
    """Return the rights of a key that may use the broker; None if there is no such key."""
    key = await broker_keys.find_amqp(db, key_id)
    if key is None:
        return None
    return Rights(key, await queue_prefix(db, key.organization_id))


def may_use_resource(rights: Rights | None, vhost: str, resource: str, name: str, permission: str) -> bool:
    """Return whether the key may use a resource of the vhost. `rights` None: the key has none.

    It may read the organisation's four event queues, do everything with queues of its own, and publish and bind to `vcp`. In
    the vhost that legacy keys share, it may read the event queues and publish, nothing else. Write access to `vcp` needs
    a scope that allows publishing: when a queue names `vcp` as its dead-letter exchange, the broker checks only this access.
    """
    if rights is None or rights.key.vhost != vhost:
        return False
    connects = Scope.VCP_CONNECT in rights.key.scopes
    shared = vhost == LEGACY_VHOST
    if resource == "exchange":
        # The topic request decides the rest. Binding reads the exchange, publishing writes to it.
        writes = bool(WRITE_SCOPES & rights.key.scopes)
        return name == EXCHANGE and ((permission == "write" and writes) or (permission == "read" and connects and not shared))
    if resource != "queue" or not connects:
        return False
    if name in {event_queue(rights.key.slug, kind) for kind in EventKind}:
        return permission == "read"
    return not shared and is_own_queue(name, rights.prefix)


def may_use_topic(rights: Rights | None, vhost: str, exchange: str, permission: str, routing_key: str) -> bool:
    """Return whether the key may publish with this routing key, or bind a queue with it. `rights` None: the key has none."""
    if rights is None or rights.key.vhost != vhost or exchange != EXCHANGE:
        return False
    if permission == "write":
        return may_publish(rights.key, routing_key)
    return permission == "read" and vhost != LEGACY_VHOST and may_bind(rights.key, routing_key)


def may_publish(key: AmqpKey, routing_key: str) -> bool:
    """Return whether the routing key begins with the key's own slug and belongs to a family that its scopes allow."""
    start = f"{key.slug}."
    if not routing_key.startswith(start):
        return False
    rest = routing_key.removeprefix(start)
    return any(family.scope in key.scopes and family.matches(rest) for family in FAMILIES)


def may_bind(key: AmqpKey, routing_key: str) -> bool:
    """Return whether a binding with this routing key matches only events of the key's own organisation."""
    own = {event_routing_key(key.slug, kind) for kind in EventKind} | {f"{key.slug}.event.*", f"{key.slug}.event.#"}
    return Scope.VCP_CONNECT in key.scopes and routing_key in own


def is_own_queue(name: str, prefix: str) -> bool:
    """Return whether the partner may declare and use a queue of this name."""
    # Names that begin with the exchange's name belong to the service, even if an organisation has that slug.
    own = bool(prefix) and name.startswith(f"{prefix}.") and not name.startswith(f"{EXCHANGE}.")
    return own and name not in inbound_names(prefix)


def _refusal(key: store.BrokerKey, user_name: str) -> str | None:
    if key.revoked_at is not None:
        return "revoked"
    # A new key that expires during its proof is created. Refused, it would be deleted, and no limit would count it.
    if key.is_proven and key.expires_at is not None and key.expires_at <= utc_now():
        return "expired"
    if user_name != key.slug:
        return "wrong user name"
    return None if AMQP_SCOPES & set(key.scopes) else "no scope for the broker"


async def _record_refusal(db: Connection, key: store.BrokerKey | None, reason: str, ip: str | None) -> None:
    # Anyone can cause refusals without limit, so the number of audit events is limited.
    await _record(db, Event.PARTNER_CONNECTION_REFUSED, key, {"reason": reason}, ip, _MOST_REFUSALS_A_MINUTE)


async def _record(
    db: Connection, event: Event, key: store.BrokerKey | None, details: dict[str, str], ip: str | None, most: int | None = None
) -> None:
    if key is None:
        await record(db, event, Actor(ActorType.ANONYMOUS, None, ip), details=details, most_a_minute=most)
        return
    actor = Actor(ActorType.API_KEY, str(key.id), ip)
    subject = Subject(SubjectType.API_KEY, key.id)
    await record(db, event, actor, subject, organization_id=key.organization_id, details=details, most_a_minute=most)
