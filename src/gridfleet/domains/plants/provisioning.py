"""Provisioning: a PENDING plant becomes ACTIVE and gets, once, everything that it needs to connect."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.plants import store
from gridfleet.domains.plants.credentials import store as credentials
from gridfleet.domains.plants.errors import PlantNotFound, PlantStateForbids
from gridfleet.domains.plants.models import AuthMethod, Lifecycle, Plant
from gridfleet.domains.plants.mqtt_access.tokens import MqttToken, PlantTokens
from gridfleet.kernel.broker.addresses import BrokerAddress
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.certificates import Authority, IssuedCertificate
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol import envelope
from gridfleet.protocol.topics import Channel, topic

__all__ = [
    "Provisioner",
    "ProvisioningPackage",
    "download_package",
    "hash_password",
    "issue_mqtt_token",
    "provision",
]

PACKAGE_LIFETIME: Final = timedelta(minutes=15)
KEEP_ALIVE_SECONDS: Final = 60


class Topics(msgspec.Struct, frozen=True):
    """The plant's four topics."""

    telemetry: str
    status: str
    commands: str
    ack: str


class Mqtt(msgspec.Struct, frozen=True, rename="camel"):
    """The addresses of the broker and the plant's names there.

    `addresses` begins with `broker` and `port`; it is empty in a package that an earlier version has stored. `username` is null
    for MTLS, because the certificate holds it. `token_url` is where a TOKEN plant requests its tokens, and null for the other
    methods.
    """

    broker: str
    port: int
    tls: bool
    username: str | None
    client_id: str
    topics: Topics
    token_url: str | None = None
    addresses: tuple[BrokerAddress, ...] = ()


class Protocol(msgspec.Struct, frozen=True, rename="camel"):
    """The format and limits of messages."""

    version: int
    envelope: str
    signature: str
    qos: int
    keep_alive_seconds: int
    max_message_bytes: int


class Security(msgspec.Struct, frozen=True, rename="camel"):
    """Secrets, shown once; null if the method does not use them. Certificates and key are PEM."""

    ca_cert: str
    client_cert: str | None
    client_key: str | None
    hmac_secret: str
    password: str | None


class ProvisioningPackage(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that a plant needs to connect."""

    plant_id: UUID
    auth_method: AuthMethod
    mqtt: Mqtt
    protocol: Protocol
    security: Security


@dataclass(frozen=True, slots=True)
class Provisioner:
    """What provisioning needs besides the database.

    Attributes:
        authority: The authority that issues certificates of plants.
        keyring: Encrypts secrets.
        addresses: Where plants reach the broker over TLS, at least one.
        base_url: The URL of the REST API.
    """

    authority: Authority
    keyring: Keyring
    addresses: tuple[BrokerAddress, ...]
    base_url: str


def hash_password(password: str) -> str:
    """Return the stored form of a plant's password. It has 256 random bits, so one fast hash is as safe as a slow one."""
    return sha256(password.encode()).hexdigest()


async def provision(
    db: Connection, org: OrgScope, provisioner: Provisioner, plant_id: UUID, *, keep_package: bool = True
) -> ProvisioningPackage:
    """Provision a plant: PENDING → ACTIVE.

    Args:
        keep_package: Whether the package can be downloaded once more within `PACKAGE_LIFETIME`.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not PENDING.
    """
    plant = await store.lock(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    if plant.lifecycle_status is not Lifecycle.PENDING:
        raise PlantStateForbids(f"Only a PENDING plant can be provisioned; this one is {plant.lifecycle_status}.")
    certificate = provisioner.authority.issue_client(str(plant_id)) if plant.auth_method is AuthMethod.MTLS else None
    password = secrets.token_urlsafe(32) if plant.auth_method is AuthMethod.PASSWORD else None
    secret = secrets.token_bytes(32)
    package = _package(plant, provisioner, certificate, secret.hex(), password)
    keyring = provisioner.keyring
    await store.activate(db, org, plant_id, certificate)
    await credentials.insert(
        db,
        org,
        plant_id,
        keyring.current_version,
        keyring.encrypt(secret, table="plant_secret", column="hmac_secret", row_id=plant_id),
        password and hash_password(password),
        keyring.encrypt(msgspec.json.encode(package), table="plant_secret", column="package", row_id=plant_id)
        if keep_package
        else None,
        PACKAGE_LIFETIME,
    )
    await record_in(db, org, Event.PLANT_PROVISIONED, Subject.plant(plant_id), {"authMethod": plant.auth_method})
    return package


async def download_package(
    db: Connection, org: OrgScope, provisioner: Provisioner, plant_id: UUID
) -> tuple[Plant, ProvisioningPackage]:
    """Return the plant and its package: provisions a PENDING plant, otherwise returns the stored package and deletes it.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The package was downloaded already, or its time has passed.
    """
    plant = await store.find(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    if plant.lifecycle_status is Lifecycle.PENDING:
        return plant, await provision(db, org, provisioner, plant_id, keep_package=False)
    kept = await credentials.take_package(db, org, plant_id)
    if kept is None:
        raise PlantStateForbids("The package was issued already and can no longer be downloaded.")
    blob, key_version = kept
    plain = provisioner.keyring.decrypt(blob, key_version, table="plant_secret", column="package", row_id=plant_id)
    await record_in(db, org, Event.PLANT_PACKAGE_DOWNLOADED, Subject.plant(plant_id))
    return plant, msgspec.json.decode(plain, type=ProvisioningPackage)


async def issue_mqtt_token(db: Connection, org: OrgScope, tokens: PlantTokens, plant_id: UUID) -> MqttToken:
    """Issue an MQTT token to an ACTIVE plant of method TOKEN.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not ACTIVE, or its method is not TOKEN.
    """
    plant = await store.find(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    if plant.auth_method is not AuthMethod.TOKEN or plant.lifecycle_status is not Lifecycle.ACTIVE:
        raise PlantStateForbids("Only an ACTIVE plant whose authMethod is TOKEN gets MQTT tokens.")
    token = tokens.issue(plant_id, plant.secret_rotated_at)
    details = {"expiresAt": msgspec.to_builtins(token.expires_at)}
    await record_in(db, org, Event.PLANT_TOKEN_ISSUED, Subject.plant(plant_id), details)
    return token


def _package(
    plant: Plant, provisioner: Provisioner, certificate: IssuedCertificate | None, secret: str, password: str | None
) -> ProvisioningPackage:
    plant_id = str(plant.id)
    return ProvisioningPackage(
        plant_id=plant.id,
        auth_method=plant.auth_method,
        mqtt=Mqtt(
            broker=provisioner.addresses[0].host,
            port=provisioner.addresses[0].port,
            tls=True,
            username=None if plant.auth_method is AuthMethod.MTLS else plant_id,
            client_id=plant_id,
            topics=Topics(**{channel.value: topic(plant_id, channel) for channel in Channel}),
            token_url=f"{provisioner.base_url}/api/v1/plants/{plant_id}/mqtt-token/renew"
            if plant.auth_method is AuthMethod.TOKEN
            else None,
            addresses=provisioner.addresses,
        ),
        protocol=Protocol(
            version=1,
            envelope='{"v":1,"id":…,"sentAt":…,"sig":…,"payload":…}',
            signature="HMAC-SHA256",
            qos=1,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            max_message_bytes=envelope.MAX_MESSAGE_BYTES,
        ),
        security=Security(
            ca_cert=provisioner.authority.certificate_pem,
            client_cert=certificate.certificate_pem if certificate else None,
            client_key=certificate.key_pem if certificate else None,
            hmac_secret=secret,
            password=password,
        ),
    )
