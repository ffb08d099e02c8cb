"""`/api/v1/partner/api-keys`. A new key is tested at the broker before it is returned."""

import asyncio
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import aiormq.exceptions
import httpx
import msgspec
from pydantic import Field

from gridfleet.api.http import NOT_NULL, Call, Input, Message, PageQuery, S, endpoint, org_member
from gridfleet.domains.partners import key_creation, registry, vhosts
from gridfleet.domains.partners.errors import SelfTestFailed
from gridfleet.domains.partners.key_creation import PreparedKey
from gridfleet.domains.partners.models import ApiKey, CreatedKey, NewKey
from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.partners.topology import ensure_partner_vhost
from gridfleet.kernel.addresses import IPNetwork, parse_network
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.broker.probe import probe
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.pagination import Page
from gridfleet.protocol.partner_routes import EXCHANGE

_MOST_NETWORKS: Final = 1_000
"""Limit of networks of one key. The address of every call with the key is compared with all of them."""
_MOST_PLANTS: Final = 2_000
"""Limit of plants of one key. They are read with each partner command, and with each key of a list (docs/decisions/0373)."""
PROOF_SECONDS: Final = 45.0
"""Limit for the creation of a key's vhost at a slow broker. The database ends the request's transaction after a minute."""

_Name = Annotated[str, Field(min_length=1, max_length=100)]


class NewApiKey(Input):
    """The rights of a key to create.

    Without `allowedPlantIds` the key reaches every plant of the organisation, without `allowedIps` it is valid from every
    address, and without `expiresAt` it is valid until it is revoked.
    """

    name: _Name
    partner_id: _Name
    scopes: Annotated[list[Scope], Field(min_length=1)]
    allowed_plant_ids: Annotated[list[UUID] | None, NOT_NULL] = None
    allowed_ips: Annotated[list[str], NOT_NULL] = []
    expires_at: Annotated[datetime | None, NOT_NULL] = None


class ApiKeyTest(Input):
    """The key to log in with."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


class ApiKeyTestResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a test login with the key. `error` is the broker's error text, null after a successful login."""

    ok: bool
    duration_ms: int
    error: str | None


@endpoint("GET", "/api/v1/partner/api-keys", caller=org_member(OrgRole.ORG_ADMIN), codes=("VALIDATION_ERROR", *S))
async def list_api_keys(org: OrgScope, db: Connection, query: PageQuery) -> Page[ApiKey]:
    """List the organisation's keys, including revoked ones, newest first."""
    return await registry.list_keys(db, org, query.paging)


@endpoint("POST", "/api/v1/partner/api-keys", caller=org_member(OrgRole.ORG_ADMIN), codes=("VALIDATION_ERROR", *S), success=201)
async def create_api_key(call: Call, org: OrgScope, db: Connection, body: NewApiKey) -> CreatedKey:
    """Create a key and show its secrets, `key` and `signingKey`, once.

    A key that may use the broker gets a vhost there, and the service logs in with it once as a test. If that fails, the key is
    deleted.
    """
    call.no_store()
    wanted = _wanted(body)
    # On the request's own connection: logins at the broker need the few reserved ones.
    await key_creation.check(db, org, wanted)
    async with call.state.reserved.transaction() as own:
        prepared = await key_creation.prepare(own, call.state.keyring, org, wanted)
    try:
        if prepared.at_broker is not None:
            await _prove(call, prepared)
        return await key_creation.activate(db, org, prepared)
    except BaseException:
        # A client that disconnects must not interrupt the clean-up.
        await asyncio.shield(_withdraw(call, org, prepared))
        raise


@endpoint(
    "GET",
    "/api/v1/partner/api-keys/{id}",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("INVALID_UUID", "API_KEY_NOT_FOUND", *S),
    addition=True,
)
async def get_api_key(org: OrgScope, db: Connection, id: UUID) -> ApiKey:
    """Return one key without its secrets."""
    return await registry.get_key(db, org, id)


@endpoint(
    "DELETE",
    "/api/v1/partner/api-keys/{id}",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("INVALID_UUID", "API_KEY_NOT_FOUND", *S),
)
async def revoke_api_key(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Revoke a key permanently, over REST and at the broker. It stays in the list."""
    await registry.revoke(db, org, id)
    return Message("The API key was revoked.")


@endpoint(
    "POST",
    "/api/v1/partner/api-keys/{id}/test-connection",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "API_KEY_NOT_FOUND", *S),
    addition=True,
)
async def test_api_key(call: Call, org: OrgScope, db: Connection, id: UUID, body: ApiKeyTest) -> ApiKeyTestResult:
    """Log in at the broker with the key and return the duration, or the broker's error.

    The broker sees the service's address, so a key with `allowedIps` passes only if they include it.
    """
    trial = await registry.trial_of(db, org, id, body.key)
    duration_ms, error = 0, trial.complaint
    if error is None:
        broker_url = call.state.settings.secret("broker_url").get_secret_value()
        duration_ms, error = await probe(broker_url, trial.vhost, trial.slug, body.key, EXCHANGE)
    await registry.record_trial(db, org, id, duration_ms, error)
    return ApiKeyTestResult(error is None, duration_ms, error)


@endpoint(
    "POST",
    "/api/v1/partner/api-keys/{id}/bundle-acknowledged",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("INVALID_UUID", "API_KEY_NOT_FOUND", *S),
    addition=True,
)
async def acknowledge_api_key_bundle(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Record that the secrets shown at the key's creation have been stored."""
    await registry.acknowledge_bundle(db, org, id)
    return Message("The key is marked as one whose secrets have been stored.")


async def _prove(call: Call, prepared: PreparedKey) -> None:
    settings, key = call.state.settings, prepared.at_broker
    assert key is not None
    broker_url = settings.secret("broker_url").get_secret_value()
    async with call.state.reserved.transaction() as own:
        queues = await vhosts.wanted_queues(own, key)
        size = await vhosts.wanted_queue_bytes(own, key)
    management_url = settings.secret("broker_management_url").get_secret_value()
    try:
        async with asyncio.timeout(PROOF_SECONDS), open_management(management_url) as management:
            kind = settings.broker_queue_type
            await ensure_partner_vhost(management, broker_url, key.vhost, queues, queue_type=kind, queue_bytes=size)
    except (httpx.HTTPError, aiormq.exceptions.AMQPError, OSError) as error:
        raise SelfTestFailed(details=[f"broker: {type(error).__name__}"]) from error
    proof = await probe(broker_url, key.vhost, key.slug, prepared.text, EXCHANGE)
    if proof.error is not None:
        raise SelfTestFailed(details=[f"broker: {proof.error}"])


async def _withdraw(call: Call, org: OrgScope, prepared: PreparedKey) -> None:
    async with call.state.reserved.transaction() as own:
        await key_creation.withdraw(own, org, prepared)


def _wanted(body: NewApiKey) -> NewKey:
    networks: list[IPNetwork] = []
    complaints = []
    if len(body.allowed_plant_ids or ()) > _MOST_PLANTS:
        raise ValidationFailed(details=[f"allowedPlantIds: must have at most {_MOST_PLANTS} plants"])
    if len(body.allowed_ips) > _MOST_NETWORKS:
        raise ValidationFailed(details=[f"allowedIps: must have at most {_MOST_NETWORKS} networks"])
    for number, text in enumerate(body.allowed_ips):
        network = parse_network(text)
        if network is None:
            complaints.append(f"allowedIps.{number}: must be a network such as 192.0.2.0/24 or 192.0.2.7/32")
        else:
            networks.append(network)
    if body.allowed_plant_ids is not None and not body.allowed_plant_ids:
        complaints.append("allowedPlantIds: must contain at least one plant; omit it to allow all plants")
    if complaints:
        raise ValidationFailed(details=complaints)
    plants = None if body.allowed_plant_ids is None else tuple(dict.fromkeys(body.allowed_plant_ids))
    return NewKey(
        name=body.name,
        partner_id=body.partner_id,
        scopes=tuple(dict.fromkeys(body.scopes)),
        plant_ids=plants,
        networks=tuple(dict.fromkeys(networks)),
        expires_at=body.expires_at,
    )
