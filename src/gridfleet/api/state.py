"""The state that every handler can reach, such as settings, database and keys. Opened once per process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from gridfleet.api.access.cache import ACCESS_CHANNEL, AccessCache
from gridfleet.api.access.history_reads import HistoryReads
from gridfleet.api.access.idempotency import KeptBytes
from gridfleet.api.access.shares import ConnectionShares
from gridfleet.api.access.streams import StreamSlots
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.live.fleet import FleetChanges
from gridfleet.domains.partners.amqp_access.rights_cache import RightsCache
from gridfleet.domains.plants.certificates.authority import ensure_authority
from gridfleet.domains.plants.mqtt_access.client_ids import ClientIds
from gridfleet.domains.plants.mqtt_access.login_limit import PlantLogins
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.domains.telemetry.history.live import LiveValues
from gridfleet.domains.trading.esm.client import EsmClient
from gridfleet.kernel.cache import Cache, MemoryBackend, RedisBackend
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.replica import Replica
from gridfleet.kernel.mail.queue import MailQueue
from gridfleet.kernel.outages import WrongSetting
from gridfleet.kernel.outbound.sending import Outbound
from gridfleet.kernel.rate_limit import RateLimiter
from gridfleet.kernel.redis_link import RedisLink
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion
from gridfleet.kernel.security.passwords import Passwords
from gridfleet.kernel.settings import Settings

__all__ = ["AppState", "open_state"]


_RESERVED_SIZE = 4
"""Size of the separate pool for work that must not wait for requests."""
_REPLICA_WAIT_SECONDS = 2
"""How long a read of history waits for a connection to the replica, before the primary is read instead."""


@dataclass(frozen=True, slots=True)
class AppState:
    """The long-lived parts of the process.

    Attributes:
        reserved: A small pool for the broker's requests, which must not wait for other requests, and for what a request commits
            outside its own transaction.
        history_reads: Reads of the history of telemetry, at the replica if there is one.
        shares: Transactions of `database` for requests of organisations, of which each has half of the connections at most.
        strict: Whether an error code that the endpoint does not declare raises instead of becoming status 500. For tests.
        stopping: Set once the process has been asked to end. It takes requests until its listeners close.
    """

    settings: Settings
    database: Database
    reserved: Database
    shares: ConnectionShares
    history_reads: HistoryReads
    keyring: Keyring
    access_tokens: AccessTokens
    access: AccessCache
    plant_tokens: PlantTokens
    partner_rights: RightsCache
    client_ids: ClientIds
    plant_logins: PlantLogins
    passwords: Passwords
    rate_limiter: RateLimiter
    kept_bytes: KeptBytes
    cache: Cache
    mail: MailQueue
    live: LiveValues
    fleet: FleetChanges
    stream_slots: StreamSlots
    esm: EsmClient
    strict: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def open_state(settings: Settings, *, strict: bool = False) -> AsyncIterator[AppState]:
    """Open the state of one process and close it at the end of the block. Creates the certificate authority if it is missing.

    Raises:
        LookupError: If a secret is missing.
        psycopg.Error: If the database is unavailable or not migrated.
    """
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    url = settings.secret("database_url").get_secret_value()
    passwords = Passwords()
    access_tokens = AccessTokens(keyring)
    access = AccessCache(access_tokens)
    size = settings.database_pool_size
    redis = RedisLink(settings.secret("redis_url").get_secret_value()) if settings.redis_url is not None else None
    try:
        opened = partial(open_database, url, channel=ACCESS_CHANNEL, on_notification=access.invalidate_own)
        async with (
            opened(name="gridfleet-api", size=size) as database,
            opened(name="gridfleet-reserved", size=_RESERVED_SIZE) as reserved,
            _open_replica(settings, reserved) as replica,
        ):
            await _require_authority(database, keyring)
            shares = ConnectionShares(database, size // 2)
            yield AppState(
                settings=settings,
                database=database,
                reserved=reserved,
                shares=shares,
                history_reads=HistoryReads(shares, replica, size // 2),
                keyring=keyring,
                access_tokens=access_tokens,
                access=access,
                plant_tokens=PlantTokens(keyring, timedelta(minutes=settings.mqtt_token_minutes)),
                partner_rights=RightsCache(),
                client_ids=ClientIds(),
                plant_logins=PlantLogins(),
                passwords=passwords,
                kept_bytes=KeptBytes(),
                rate_limiter=RateLimiter(enabled=settings.rate_limits == "on", redis=redis),
                cache=Cache(RedisBackend(redis) if redis else MemoryBackend(settings.cache_megabytes * 1024 * 1024)),
                mail=MailQueue(keyring, settings.base_url),
                live=LiveValues(database),
                fleet=FleetChanges(database),
                stream_slots=StreamSlots(),
                esm=EsmClient(Outbound(allow_private=settings.esm_allow_private), settings.sandbox_esm_url),
                strict=strict,
            )
    finally:
        passwords.close()
        if redis is not None:
            await redis.close()


@asynccontextmanager
async def _open_replica(settings: Settings, primary: Database) -> AsyncIterator[Replica | None]:
    if settings.database_read_url is None:
        yield None
        return
    url = settings.secret("database_read_url").get_secret_value()
    size = settings.database_pool_size
    async with open_database(url, name="gridfleet-history", size=size, wait_seconds=_REPLICA_WAIT_SECONDS) as database:
        yield Replica(database, primary, settings.database_read_lag_seconds)


async def _require_authority(database: Database, keyring: Keyring) -> None:
    async with database.transaction() as db:
        try:
            await ensure_authority(db, keyring)
        except (DecryptionFailed, UnknownKeyVersion) as error:
            reason = f"the keyring (GRIDFLEET_KEYS, else secrets/keys) does not belong to this database: {error}"
            raise WrongSetting(reason) from None
