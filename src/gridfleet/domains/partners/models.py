"""Records of API keys, for organisations and for the gateway."""

from datetime import datetime
from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.identity.models import User
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel.addresses import IPNetwork
from gridfleet.kernel.caller import KeyCaller

__all__ = ["AmqpAddress", "AmqpKey", "ApiKey", "CreatedKey", "LegacyKey", "LiveKey", "NewKey", "SendingKey", "vhost_of"]


class ApiKey(msgspec.Struct, frozen=True, rename="camel"):
    """An API key without its secrets (spec, API key record).

    `allowed_plant_ids` null allows every plant of the organisation, an empty `allowed_ips` every address. `is_active` is true
    until the key is revoked or expires.
    """

    id: UUID
    organization_id: UUID
    name: str
    partner_id: str
    key_prefix: str
    scopes: list[Scope]
    allowed_plant_ids: list[Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]] | None
    allowed_ips: list[str]
    vhost: str
    is_active: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None
    created_by: UUID
    creator: User
    created_at: datetime
    updated_at: datetime


class NewKey(NamedTuple):
    """The properties of a key to create. `plant_ids` None allows every plant, empty `networks` every address."""

    name: str
    partner_id: str
    scopes: tuple[Scope, ...]
    plant_ids: tuple[UUID, ...] | None
    networks: tuple[IPNetwork, ...]
    expires_at: datetime | None


class LegacyKey(NamedTuple):
    """A key to import.

    `digest` is the SHA-256 of the key's text, `shown` the prefix that identifies it, `organization` a slug or an id, `line` its
    line number in the file.
    """

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
    """A new key. Only here do `key` and `signing_key` exist in plain text.

    `signing_key` has 64 hex digits; it is null without a `vcp:write:*` scope.
    """

    key: str
    signing_key: str | None
    api_key: ApiKey


class LiveKey(NamedTuple):
    """A key that is proved and not revoked. Empty `networks` allow every address."""

    caller: KeyCaller
    networks: tuple[IPNetwork, ...]
    expires_at: datetime | None


class AmqpKey(NamedTuple):
    """A key that may use the broker.

    `scopes` are expanded (`scopes.expand_amqp`); `plant_ids` None allows every plant of the organisation.
    """

    id: UUID
    organization_id: UUID
    slug: str
    vhost: str
    scopes: frozenset[Scope]
    plant_ids: frozenset[UUID] | None


class AmqpAddress(NamedTuple):
    """Where an organisation's programs connect to the broker.

    `vhost` is that of the key that calls, else of the newest active one, None without one.
    """

    slug: str
    vhost: str | None


class SendingKey(NamedTuple):
    """An `AmqpKey` with the 32 bytes that sign its messages.

    `signing_key` is None for a key without a `vcp:write:*` scope, and for a legacy key that was imported without a signing key.
    """

    key: AmqpKey
    signing_key: bytes | None


def vhost_of(key_id: UUID) -> str:
    """Return the name of the vhost of a new key."""
    return f"partner-{key_id}"
