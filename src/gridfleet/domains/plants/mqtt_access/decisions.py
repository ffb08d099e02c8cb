"""Answers to the broker's four requests about a plant: login, vhost, resource, topic.

A plant's user name is its id, or with a client certificate the certificate's subject `SERIALNUMBER=<serial>,CN=<plant id>`.
Answers about resources and topics follow from the name alone.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from hmac import compare_digest
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.models import AuthMethod, Lifecycle
from gridfleet.domains.plants.mqtt_access import store
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.domains.plants.provisioning import hash_password
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.tokens import InvalidToken
from gridfleet.protocol.topics import Channel, parse_routing_key

__all__ = [
    "LoginRefusal",
    "PlantUserName",
    "login",
    "may_enter_vhost",
    "may_use_resource",
    "may_use_topic",
    "parse_plant_name",
]

_UP: Final = frozenset({Channel.TELEMETRY, Channel.STATUS, Channel.ACK})
_SUBJECT: Final = re.compile(r"SERIALNUMBER=([0-9a-f]{1,40}),CN=([0-9a-f-]{36})")


@dataclass(frozen=True, slots=True)
class PlantUserName:
    """A broker user name that can belong to a plant; `certificate_serial` is None unless the client sent a certificate."""

    plant_id: UUID
    certificate_serial: str | None


@dataclass(frozen=True, slots=True)
class LoginRefusal:
    """Why a login was refused: for logs and metrics, never for the broker's client."""

    reason: str


def parse_plant_name(username: str) -> PlantUserName | None:
    """Return the plant that a broker user name stands for; None if the name cannot be a plant's."""
    subject = _SUBJECT.fullmatch(username)
    serial, text = (subject[1], subject[2]) if subject else (None, username)
    try:
        plant_id = UUID(text)
    except ValueError:
        return None
    # UUID() accepts several spellings. Only the canonical one is a name; otherwise one plant would have several names.
    return PlantUserName(plant_id, serial) if str(plant_id) == text else None


async def login(db: Connection, tokens: PlantTokens, name: PlantUserName, password: str | None) -> LoginRefusal | None:
    """Check whether the plant may log in.

    Args:
        password: None only if the client sent none, which happens with a certificate. An empty password is a wrong password.

    Returns:
        None if it may, otherwise the reason of the refusal.
    """
    credentials = await store.find(db, name.plant_id)
    if credentials is None:
        return LoginRefusal("unknown plant")
    refusal = _refusal(credentials, tokens, name, password, utc_now())
    if refusal is not None:
        await store.count_failures(db, {name.plant_id: 1})
    elif credentials.auth_failure_count:
        await store.clear_failures(db, name.plant_id)
    return refusal


async def may_enter_vhost(db: Connection, name: PlantUserName, vhost: str, client_id: str | None) -> bool:
    """Return whether the plant may enter a vhost.

    It may enter only the plants' vhost, only while it is ACTIVE or SUSPENDED, and only with a client id of its own: two clients
    with one client id would share a broker session and receive each other's commands.
    """
    if vhost != PLANTS_VHOST or client_id is None:
        return False
    credentials = await store.find(db, name.plant_id)
    if credentials is None or credentials.lifecycle_status not in (Lifecycle.ACTIVE, Lifecycle.SUSPENDED):
        return False
    if (credentials.auth_method == AuthMethod.MTLS) != (name.certificate_serial is not None):
        return False
    own = str(name.plant_id)
    return client_id == own or (credentials.auth_method == AuthMethod.PASSWORD and client_id.startswith(f"{own}-"))


def may_use_resource(name: PlantUserName, vhost: str, resource: str, resource_name: str, permission: str) -> bool:
    """Return whether the plant may use a resource: its own subscription queues, and the topic exchange.

    `may_use_topic` limits what it may publish and subscribe to at the exchange.
    """
    if vhost != PLANTS_VHOST:
        return False
    if resource == "exchange":
        return resource_name == "amq.topic" and permission in ("read", "write")
    own_queue = rf"mqtt-subscription-{name.plant_id}(-.*)?qos[01]"
    return resource == "queue" and re.fullmatch(own_queue, resource_name, re.DOTALL) is not None


def may_use_topic(name: PlantUserName, vhost: str, resource_name: str, permission: str, routing_key: str) -> bool:
    """Return whether the plant may use a topic: publish to its own telemetry, status and ack, subscribe to its own commands.

    Wildcards are refused.
    """
    if vhost != PLANTS_VHOST or resource_name != "amq.topic":
        return False
    topic = parse_routing_key(routing_key)
    if topic is None or topic.plant_id != str(name.plant_id):
        return False
    return topic.channel in _UP if permission == "write" else permission == "read" and topic.channel is Channel.COMMANDS


def _refusal(
    credentials: store.PlantCredentials, tokens: PlantTokens, name: PlantUserName, password: str | None, now: datetime
) -> LoginRefusal | None:
    if credentials.lifecycle_status not in (Lifecycle.ACTIVE, Lifecycle.SUSPENDED):
        return LoginRefusal(f"plant is {credentials.lifecycle_status}")
    if name.certificate_serial is not None:
        if password is not None:
            # A forgery, or RabbitMQ 4.0 without its plugin: the two cannot be distinguished here, so both are refused.
            return LoginRefusal("a certificate's name with a password")
        if credentials.auth_method != AuthMethod.MTLS:
            return LoginRefusal("a certificate is not this plant's method")
        return _certificate_refusal(credentials, name.certificate_serial, now)
    if not password:
        return LoginRefusal("no password")
    if credentials.auth_method == AuthMethod.TOKEN:
        return _token_refusal(credentials, tokens, name.plant_id, password, now)
    if credentials.auth_method == AuthMethod.PASSWORD and credentials.password_hash:
        matches = compare_digest(hash_password(password), credentials.password_hash)
        return None if matches else LoginRefusal("wrong password")
    return LoginRefusal("a password is not this plant's method")


def _certificate_refusal(credentials: store.PlantCredentials, serial: str, now: datetime) -> LoginRefusal | None:
    current, previous = credentials.certificate_serial_number, credentials.previous_certificate_serial_number
    if current and compare_digest(serial, current):
        expires = credentials.certificate_expires_at
        return None if expires is None or now < expires else LoginRefusal("certificate has expired")
    if previous and compare_digest(serial, previous):
        until = credentials.previous_certificate_valid_until
        return None if until is not None and now < until else LoginRefusal("certificate was replaced")
    return LoginRefusal("certificate is not the plant's current one")


def _token_refusal(
    credentials: store.PlantCredentials, tokens: PlantTokens, plant_id: UUID, token: str, now: datetime
) -> LoginRefusal | None:
    try:
        claims = tokens.read(token)
    except InvalidToken as error:
        return LoginRefusal(f"token: {error}")
    if claims.plant_id != plant_id:
        return LoginRefusal("token of another plant")
    if claims.secret_rotated_at == credentials.secret_rotated_at:
        return None
    # Otherwise each rotation would make the tokens of all earlier secrets valid again.
    is_of_previous_secret = claims.secret_rotated_at == credentials.previous_secret_rotated_at
    until = credentials.previous_secret_valid_until
    return None if is_of_previous_secret and until and now < until else LoginRefusal("token of a replaced secret")
