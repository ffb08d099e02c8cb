"""The trading configuration, the connection details for partners, and the synchronisation of plants."""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from pydantic import Field, StringConstraints

from gridfleet.api.http import NOT_NULL, Call, Input, Pattern, S, endpoint, org_member
from gridfleet.domains.trading import configuration, plant_sync
from gridfleet.domains.trading.configuration import EsmSettings
from gridfleet.domains.trading.models import Synced, TradingConfig
from gridfleet.domains.trading.partner_queues import EXCHANGE, RESERVED_PREFIXES, Queue
from gridfleet.kernel.broker.addresses import BrokerAddress, broker_addresses
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection

_ADDRESSES_PER_MINUTE: Final = 10
"""Limit for one organisation. A name that its server does not answer occupies one of the process's look-ups for ten seconds."""
_PREFIXES_PER_MINUTE: Final = 10

EsmUrl = Annotated[str, Field(min_length=1, max_length=2048, json_schema_extra={"format": "uri"})]
ClientId = Annotated[str, Field(min_length=1, max_length=255)]
ClientSecret = Annotated[str, StringConstraints(min_length=1, max_length=1024, strip_whitespace=False)]
QueuePrefix = Annotated[
    str,
    Field(min_length=2, max_length=50),
    Pattern(
        r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        "must be lowercase letters, digits and hyphens, beginning and ending with a letter or digit",
    ),
]


class NewSettings(Input):
    """Settings to change; omitted fields stay unchanged."""

    esm_api_url: Annotated[EsmUrl | None, NOT_NULL] = None
    esm_client_id: Annotated[ClientId | None, NOT_NULL] = None
    esm_client_secret: Annotated[ClientSecret | None, NOT_NULL] = None
    queue_prefix: Annotated[QueuePrefix | None, NOT_NULL] = None

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the queue prefix is reserved."""
        if self.queue_prefix in RESERVED_PREFIXES:
            yield f"queuePrefix: must not be {self.queue_prefix}, which is reserved"


class ConnectionDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The details that a partner needs to connect by AMQP. `addresses` begins with `host` and `port`."""

    host: str
    port: int
    tls: bool
    vhost: str
    exchange: str
    queue_prefix: str
    auth_method: str
    auth_instructions: str
    queues: list[Queue]
    addresses: tuple[BrokerAddress, ...]


@endpoint("GET", "/api/v1/trading/config", caller=org_member(OrgRole.VIEWER, scope="trading:read"), codes=S)
async def get_trading_config(org: OrgScope, db: Connection) -> TradingConfig:
    """Return the organisation's ESM configuration without the secret. DISABLED until it is set."""
    return await configuration.get_config(db, org)


@endpoint(
    "POST",
    "/api/v1/trading/config",
    caller=org_member(OrgRole.ORG_ADMIN, scope="trading:write"),
    codes=("VALIDATION_ERROR", *S),
)
async def update_trading_config(call: Call, org: OrgScope, body: NewSettings) -> TradingConfig:
    """Set address and credentials of the ESM, and the queue prefix.

    The address must be public: it is refused if its name resolves to a private address, now or at any later call.
    """
    state, url = call.state, body.esm_api_url
    if url is not None:
        await state.rate_limiter.hit("ESM address", str(org.organization_id), _ADDRESSES_PER_MINUTE)
        url = await configuration.check_esm_url(state.esm, url)
    if body.queue_prefix is not None:  # a change wakes all gateways, and the ingest reads all subscriptions again
        await state.rate_limiter.hit("queue prefix", str(org.organization_id), _PREFIXES_PER_MINUTE)
    settings = EsmSettings(url, body.esm_client_id, body.esm_client_secret, body.queue_prefix)
    async with state.shares.transaction(org) as db:
        return await configuration.change_config(db, org, state.keyring, settings)


@endpoint(
    "POST",
    "/api/v1/trading/config/enable",
    caller=org_member(OrgRole.ORG_ADMIN, scope="trading:write"),
    codes=("TRADING_CONFIG_INCOMPLETE", *S),
)
async def enable_trading(org: OrgScope, db: Connection) -> TradingConfig:
    """Enable trading: create the queues of every partner key, and sync plants every quarter of an hour."""
    return await configuration.enable(db, org)


@endpoint("POST", "/api/v1/trading/config/disable", caller=org_member(OrgRole.ORG_ADMIN, scope="trading:write"), codes=S)
async def disable_trading(org: OrgScope, db: Connection) -> TradingConfig:
    """Disable trading: delete the queues and the messages in them."""
    return await configuration.disable(db, org)


@endpoint("GET", "/api/v1/trading/connection-details", caller=org_member(OrgRole.VIEWER, scope="trading:read"), codes=S)
async def get_connection_details(call: Call, org: OrgScope, db: Connection) -> ConnectionDetails:
    """Return the AMQP addresses for partners, and the queues that exist while trading is enabled."""
    settings = call.state.settings
    vhost, prefix, queues = await configuration.queues(db, org)
    return ConnectionDetails(
        host=settings.mqtt_host,
        port=settings.amqps_port,
        tls=True,
        vhost=vhost,
        exchange=EXCHANGE,
        queue_prefix=prefix,
        auth_method="PLAIN",
        auth_instructions="Log in over TLS with the organisation's slug as user name and an API key as password,"
        " to the vhost of that key. Declare queues of your own under the queue prefix.",
        queues=queues,
        addresses=broker_addresses(settings.broker_hosts, settings.amqps_port),
    )


@endpoint(
    "POST",
    "/api/v1/trading/plants/sync",
    caller=org_member(OrgRole.ORG_ADMIN, scope="trading:write"),
    codes=("ESM_NOT_CONFIGURED", *S),
)
async def sync_trading_plants(call: Call, org: OrgScope) -> Synced:
    """Update the organisation's linked plants from the ESM.

    Plants are linked by `externalPlantId`. If the ESM does not respond, the call still succeeds and counts every plant as an
    error.
    """
    state = call.state
    async with state.shares.transaction(org) as db:
        access = await configuration.request_sync(db, org, state.keyring)
    return await plant_sync.sync_plants(state.shares.of(org), state.esm, access, org.organization_id, org.plant_ids)
