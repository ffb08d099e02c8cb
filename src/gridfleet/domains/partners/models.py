"""API keys as organisations see them, and as the gateway uses them."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.identity.models import User
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel.addresses import IPNetwork
from gridfleet.kernel.caller import KeyCaller

__all__ = ["AmqpKey", "AmqpPlace", "ApiKey", "CreatedKey", "LegacyKey", "LiveKey", "NewKey", "SendingKey", "vhost_of"]


class ApiKey(msgspec.Struct, frozen=True, rename="camel"):
    """An API key without its secrets (spec, API key record). `allowed_plant_ids` null is every plant of the organisation,
    `allowed_ips` empty is every address; `is_active` until it is revoked or has expired."""

    id: UUID
    organization_id: UUID
    name: str
    partner_id: str
    key_prefix: str
    scopes: list[Scope]
    allowed_plant_ids: list[UUID] | None
    allowed_ips: list[str]
    vhost: str
    is_active: bool
    expires_at: datetime | None
    last_used_at: datetime | None
    created_by: UUID
    creator: User
    created_at: datetime
    updated_at: datetime


class NewKey(NamedTuple):
    """What an organisation wants a key to be. `plant_ids` None is every plant, `networks` empty every address."""

    name: str
    partner_id: str
    scopes: tuple[Scope, ...]
    plant_ids: tuple[UUID, ...] | None
    networks: tuple[IPNetwork, ...]
    expires_at: datetime | None


class LegacyKey(NamedTuple):
    """A key to import. `digest` is the SHA-256 of the key's text, `shown` the beginning that identifies it, `organization` a
    slug or an id, `line` its place in the file."""

    line: int
    id: UUID
    organization: str
    digest: bytes
    shown: str
    scopes: tuple[Scope, ...]
    expires_at: datetime | None
    name: str
    signing_key: bytes | None


class CreatedKey(msgspec.Struct, frozen=True, rename="camel"):
    """A new key. `key` and `signing_key` (64 hex digits; null without a `vcp:write:*` scope) exist in clear only here."""

    key: str
    signing_key: str | None
    api_key: ApiKey


class LiveKey(NamedTuple):
    """A key that is neither revoked nor unproved. `networks` empty is every address."""

    caller: KeyCaller
    networks: tuple[IPNetwork, ...]
    expires_at: datetime | None


class AmqpKey(NamedTuple):
    """An active key that may use the broker. `scopes` are expanded (`scopes.expand_amqp`); `plant_ids` None is every plant of
    the organisation."""

    id: UUID
    organization_id: UUID
    slug: str
    vhost: str
    scopes: frozenset[Scope]
    plant_ids: frozenset[UUID] | None


class AmqpPlace(NamedTuple):
    """Where an organisation's programs meet the broker. `vhost` is the newest active key's, None without any."""

    slug: str
    vhost: str | None


class SendingKey(NamedTuple):
    """An `AmqpKey` with the 32 bytes its messages are signed with; None for a key without a `vcp:write:*` scope, and for a
    legacy one that was imported without."""

    key: AmqpKey
    signing_key: bytes | None


def vhost_of(key_id: UUID) -> str:
    """The vhost of a new key."""
    return f"partner-{key_id}"
