"""Provisioning: secrets that are returned once and never cached."""

from functools import partial
from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from gridfleet.api.http import AppState, Call, Input, S, endpoint, org_member, public
from gridfleet.domains.plants import provisioning
from gridfleet.domains.plants.certificates.authority import ensure_authority
from gridfleet.domains.plants.credentials import rotation
from gridfleet.domains.plants.credentials.rotation import RenewedCertificate, RotatedSecret
from gridfleet.domains.plants.mqtt_access import renewal
from gridfleet.domains.plants.mqtt_access.renewal import TokenRequest
from gridfleet.domains.plants.mqtt_access.tokens import MqttToken
from gridfleet.domains.plants.provisioning import Provisioner, ProvisioningPackage
from gridfleet.kernel.broker.addresses import broker_addresses
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "POST",
    "/api/v1/plants/{id}/provision",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S),
    once=True,
)
async def provision_plant(call: Call, org: OrgScope, db: Connection, id: UUID) -> ProvisioningPackage:
    """Make a PENDING plant ACTIVE and return its provisioning package."""
    call.no_store()
    return await provisioning.provision(db, org, await _provisioner(call.state, db), id)


@endpoint(
    "GET",
    "/api/v1/plants/{id}/provision/download",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S),
    has_effect=True,
)
async def download_provisioning_package(call: Call, org: OrgScope, db: Connection, id: UUID) -> ProvisioningPackage:
    """Return the package as a file: provision a PENDING plant, or repeat the response of `provision` once within 15 minutes."""
    call.no_store()
    plant, package = await provisioning.download_package(db, org, await _provisioner(call.state, db), id)
    call.download_as(f"{plant.serial_number}.json")
    return package


@endpoint(
    "POST", "/api/v1/plants/{id}/mqtt-token", caller=org_member(OrgRole.ORG_ADMIN), codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S)
)
async def create_mqtt_token(call: Call, org: OrgScope, db: Connection, id: UUID) -> MqttToken:
    """Issue an MQTT token for an ACTIVE plant whose authMethod is TOKEN."""
    call.no_store()
    return await provisioning.issue_mqtt_token(db, org, call.state.plant_tokens, id)


class TokenRenewal(Input):
    """A plant's request for an MQTT token. The signature covers `v1/plants/{id}/mqtt-token`, `id`, `sentAt` and no payload."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=128, strip_whitespace=False)]
    sent_at: Annotated[int, Field(ge=0)]
    sig: Annotated[str, Field(min_length=64, max_length=64)]


@endpoint(
    "POST",
    "/api/v1/plants/{id}/mqtt-token/renew",
    caller=public(),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "TOO_MANY_REQUESTS", *S),
    addition=True,
)
async def renew_mqtt_token(call: Call, id: UUID, body: TokenRenewal) -> MqttToken:
    """Issue an MQTT token to an ACTIVE plant of authMethod TOKEN that signs the request with its HMAC secret.

    Each `sentAt` must be later than that of the plant's last accepted request. Every other request gets UNAUTHORIZED, in the
    same way for plants that do not exist. Requests are limited per address, and those with a valid signature also per plant.
    """
    call.no_store()
    state = call.state
    settings = state.settings
    await state.rate_limiter.hit("token address", call.client_network, settings.tokens_per_address_per_minute)
    return await renewal.renew_token(
        state.database,
        state.keyring,
        state.plant_tokens,
        TokenRequest(id, body.id, body.sent_at, body.sig, call.client_ip),
        settings.signature_window_seconds,
        # Counted after the signature was verified: otherwise anyone could use up the requests of a plant.
        partial(state.rate_limiter.hit, "token plant", str(id), settings.tokens_per_plant_per_minute),
    )


@endpoint(
    "POST",
    "/api/v1/plants/{id}/rotate-secret",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S),
    addition=True,
    once=True,
)
async def rotate_secret(call: Call, org: OrgScope, db: Connection, id: UUID) -> RotatedSecret:
    """Issue a new HMAC secret to an ACTIVE or SUSPENDED plant. The old one is accepted for another hour.

    A second rotation within the hour ends the first secret immediately. Send an `Idempotency-Key`, and the same one if you
    repeat a request that got no response.
    """
    call.no_store()
    return await rotation.rotate_secret(db, org, call.state.keyring, id)


@endpoint(
    "POST",
    "/api/v1/plants/{id}/renew-certificate",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S),
    addition=True,
    once=True,
)
async def renew_certificate(call: Call, org: OrgScope, db: Connection, id: UUID) -> RenewedCertificate:
    """Issue a new certificate to an ACTIVE plant of authMethod MTLS. The old one is accepted for another hour.

    A second renewal within the hour ends the first certificate immediately. Send an `Idempotency-Key`, and the same one if you
    repeat a request that got no response.
    """
    call.no_store()
    return await rotation.renew_certificate(db, org, await ensure_authority(db, call.state.keyring), id)


async def _provisioner(state: AppState, db: Connection) -> Provisioner:
    # Read on every call: the authority may have been replaced since the process started.
    authority = await ensure_authority(db, state.keyring)
    settings = state.settings
    addresses = broker_addresses(settings.broker_hosts, settings.mqtts_port)
    return Provisioner(authority, state.keyring, addresses, settings.base_url)
