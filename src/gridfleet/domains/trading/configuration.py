"""The trading configuration of an organisation."""

from typing import Any, Final, NamedTuple
from uuid import UUID

import httpx

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.queries import limit_a_day_in
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.partners.queues import amqp_address, count_vhosts, set_queues
from gridfleet.domains.trading import store
from gridfleet.domains.trading.errors import EsmNotConfigured, TradingConfigIncomplete
from gridfleet.domains.trading.esm.client import EsmAccess, EsmClient
from gridfleet.domains.trading.models import TradingConfig, TradingStatus
from gridfleet.domains.trading.partner_queues import RESERVED_PREFIXES, Queue, partner_queues
from gridfleet.domains.trading.store import ConfigRow
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.outbound.addresses import AddressRefused
from gridfleet.kernel.security.keyring import Keyring

__all__ = [
    "ESM_SECRETS",
    "EsmSettings",
    "access_of",
    "change_config",
    "check_esm_url",
    "delete_disabled",
    "disable",
    "enable",
    "esm_access",
    "follow_slug",
    "get_config",
    "queues",
    "request_sync",
]

_MOST_MADE_A_DAY: Final = 2_000
"""How often enabling trading makes the queues of a vhost within 24 hours, in all vhosts of an organisation together: what the
broker keeps of a deleted quorum queue is never freed (docs/decisions/0430)."""
_VHOST_PATTERN: Final = "partner-{keyId}"
_HIDDEN_ERROR: Final = "The last sync had errors."
"""Shown to a caller that is limited to some plants, because the error names others."""
_ROW: Final[dict[str, Any]] = {"table": "trading_config", "column": "esm_client_secret"}

ESM_SECRETS: Final = EncryptedTable("trading_config", ("id",), ("esm_client_secret",))
"""The encrypted columns of configurations."""


class EsmSettings(NamedTuple):
    """The settings to change; None leaves a setting as it is. The address is already checked."""

    esm_api_url: str | None
    esm_client_id: str | None
    esm_client_secret: str | None
    queue_prefix: str | None


async def check_esm_url(esm: EsmClient, url: str) -> str:
    """Return the ESM's address in the form that is stored. Raises ValidationFailed for an address that is not allowed."""
    try:
        return await esm.check_url(url)
    except AddressRefused as error:
        raise ValidationFailed(details=[f"esmApiUrl: {error}"]) from None


async def get_config(db: Connection, org: OrgScope) -> TradingConfig:
    """Return the configuration. It is created on the first read."""
    row = await _row(db, org)
    if row.last_sync_error is not None and org.plant_ids is not None:
        row = row._replace(last_sync_error=_HIDDEN_ERROR)
    return _shown(row)


async def change_config(db: Connection, org: OrgScope, keyring: Keyring, settings: EsmSettings) -> TradingConfig:
    """Change the settings and return the configuration.

    Raises:
        ValidationFailed: The prefix changes while trading is enabled, or the address changes to another server while the
            secret does not change.
        Forbidden: The caller is limited to some plants.
    """
    row = await _lock(db, org)
    if row.esm_client_secret is not None and settings.esm_client_secret is None and _leads_elsewhere(row, settings):
        raise ValidationFailed(details=["esmClientSecret: must be given again with the address of another server"])
    prefix = settings.queue_prefix
    if prefix is not None and prefix != row.queue_prefix and row.status is TradingStatus.ENABLED:
        raise ValidationFailed(details=["queuePrefix: cannot be changed while trading is enabled"])
    columns = {name: value for name, value in settings._asdict().items() if value is not None}
    if settings.esm_client_secret is not None:
        encrypted = keyring.encrypt(settings.esm_client_secret.encode(), row_id=row.id, **_ROW)
        columns |= {"esm_client_secret": encrypted, "key_version": keyring.current_version}
    if columns:
        await store.save_config(db, org, columns)
    if prefix is not None and prefix != row.queue_prefix:
        await set_queues(db, org, prefix, enabled=False)
    if columns:
        changed = sorted(columns.keys() - {"key_version"})
        await record_in(db, org, Event.TRADING_CONFIGURED, _subject(org), {"changed": changed})
    return await get_config(db, org)


async def enable(db: Connection, org: OrgScope) -> TradingConfig:
    """Enable trading: partners get their queues, plants are synced automatically. Enabling again repairs the queues.

    Raises TradingConfigIncomplete, Forbidden for a caller that is limited to some plants, and TooManyRequests if trading was
    enabled too often within a day.
    """
    row = await _lock(db, org)
    required = {"esmApiUrl": row.esm_api_url, "esmClientId": row.esm_client_id, "esmClientSecret": row.esm_client_secret}
    missing = [f"{name}: is not set" for name, value in required.items() if value is None]
    if row.queue_prefix in RESERVED_PREFIXES:
        missing.append(f"queuePrefix: must be set, because the organisation's slug is {row.queue_prefix}, which is reserved")
    if missing:
        raise TradingConfigIncomplete(details=missing)
    if row.status is not TradingStatus.ENABLED:
        await limit_a_day_in(db, org, Event.TRADING_ENABLED, _MOST_MADE_A_DAY // max(1, await count_vhosts(db, org)))
    return await _turn(db, org, row, TradingStatus.ENABLED)


async def disable(db: Connection, org: OrgScope) -> TradingConfig:
    """Disable trading: partners' queues are removed, and plants are synced only on request.

    Raises Forbidden for a caller that is limited to some plants.
    """
    return await _turn(db, org, await _lock(db, org), TradingStatus.DISABLED)


async def queues(db: Connection, org: OrgScope) -> tuple[str, str, list[Queue]]:
    """Return the vhost, the queue prefix and the queues that exist while trading is enabled.

    The vhost is that of the key that calls, else of the newest key, or the naming pattern of vhosts if there is no key.
    """
    row = await _row(db, org)
    address = await amqp_address(db, org)
    return address.vhost or _VHOST_PATTERN, row.queue_prefix, partner_queues(row.slug, row.queue_prefix)


async def request_sync(db: Connection, org: OrgScope, keyring: Keyring) -> EsmAccess:
    """Record that the caller requests a sync of plants, and return address and credentials of the ESM for it.

    Raises EsmNotConfigured.
    """
    access = await esm_access(db, org, keyring)
    await record_in(db, org, Event.TRADING_SYNC_REQUESTED, _subject(org))
    return access


async def esm_access(db: Connection, org: OrgScope, keyring: Keyring) -> EsmAccess:
    """Return address and credentials of the organisation's ESM. Raises EsmNotConfigured."""
    row = await store.find_config(db, org)
    access = None if row is None else access_of(row, keyring)
    if access is None:
        raise EsmNotConfigured
    return access


def access_of(row: ConfigRow, keyring: Keyring) -> EsmAccess | None:
    """Return address and credentials of a configuration's ESM; None if one is missing.

    Raises:
        UnknownKeyVersion: The secret's version is not in the keyring.
        DecryptionFailed: The secret was modified or belongs to another row.
    """
    if row.esm_api_url is None or row.esm_client_id is None or row.esm_client_secret is None or row.key_version is None:
        return None
    secret = keyring.decrypt(row.esm_client_secret, row.key_version, row_id=row.id, **_ROW)
    return EsmAccess(row.esm_api_url, row.esm_client_id, secret.decode(), row.organization_id)


async def delete_disabled(db: Connection, organization_id: UUID) -> None:
    """Delete the configuration before its organisation is deleted, unless trading is enabled."""
    await store.delete_disabled(db, organization_id)


async def follow_slug(db: Connection, org: OrgScope) -> None:
    """Give the organisation's queues the prefix of its configuration, which is the slug unless another prefix was set.

    Call this after the slug has changed. No key uses the broker then, so no queue has the former prefix.

    Raises ValidationFailed for a prefix that is reserved, while trading is enabled.
    """
    row = await store.lock_config(db, org)
    if row is not None:
        if row.queue_prefix in RESERVED_PREFIXES and row.status is TradingStatus.ENABLED:
            raise ValidationFailed(details=["slug: is the queue prefix, and this one is reserved"])
        await set_queues(db, org, row.queue_prefix, enabled=row.status is TradingStatus.ENABLED)


async def _row(db: Connection, org: OrgScope) -> ConfigRow:
    row = await store.find_config(db, org)
    if row is None:
        await store.ensure_config(db, org, new_id())
        row = await store.find_config(db, org)
    assert row is not None
    return row


def _leads_elsewhere(row: ConfigRow, settings: EsmSettings) -> bool:
    if row.esm_api_url is None or settings.esm_api_url is None:
        return False
    return _server_of(row.esm_api_url) != _server_of(settings.esm_api_url)


def _server_of(url: str) -> tuple[str, str, int | None]:
    parts = httpx.URL(url)
    return parts.scheme, parts.host, parts.port


async def _lock(db: Connection, org: OrgScope) -> ConfigRow:
    """Return the configuration for a change, locked. Raises Forbidden if the caller is limited to some plants."""
    if org.plant_ids is not None:
        # It holds for all plants and keys: whose ESM is called, and whether other partners have queues.
        raise Forbidden("A key that is limited to some plants cannot change the trading configuration.")
    await store.ensure_config(db, org, new_id())
    row = await store.lock_config(db, org)
    assert row is not None
    return row


async def _turn(db: Connection, org: OrgScope, row: ConfigRow, status: TradingStatus) -> TradingConfig:
    if row.status is not status:
        await store.set_status(db, org, status)
        event = Event.TRADING_ENABLED if status is TradingStatus.ENABLED else Event.TRADING_DISABLED
        await record_in(db, org, event, _subject(org), {"queuePrefix": row.queue_prefix})
    await set_queues(db, org, row.queue_prefix, enabled=status is TradingStatus.ENABLED)
    return await get_config(db, org)


def _shown(row: ConfigRow) -> TradingConfig:
    shown = {name: value for name, value in row._asdict().items() if name in TradingConfig.__struct_fields__}
    return TradingConfig(has_esm_credentials=row.esm_client_id is not None and row.esm_client_secret is not None, **shown)


def _subject(org: OrgScope) -> Subject:
    return Subject(SubjectType.ORGANIZATION, org.organization_id)
