"""MQTT tokens that a plant requests by itself, with a signature of its own secret.

A request with a wrong signature gets the same response, after the same statements, whether the plant exists or not. Reasons are
given only to a plant whose signature is right.
"""

import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.plants.credentials.signing_keys import SigningKeys, load_signing_keys
from gridfleet.domains.plants.models import AuthMethod, Lifecycle
from gridfleet.domains.plants.mqtt_access import store
from gridfleet.domains.plants.mqtt_access.tokens import MqttToken, PlantTokens
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import Forbidden, Unauthorized
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.token_request import verify_token_request

__all__ = ["TokenRequest", "renew_token"]

log = structlog.get_logger(__name__)

_NO_KEY: Final = secrets.token_bytes(32)
"""Verifies requests for plants without a secret, so that they take as long as others. No signature of it is known."""
_MOST_EVENTS: Final = {Event.PLANT_TOKEN_RENEWED: 600, Event.PLANT_TOKEN_REFUSED: 60}
"""Audit events per minute and organisation."""


class TokenRequest(NamedTuple):
    """A request as it was sent: `sent_at` in epoch milliseconds, `sig` not verified, `ip` the address that it came from."""

    plant_id: UUID
    id: str
    sent_at: int
    sig: str
    ip: str


async def renew_token(
    database: Database,
    keyring: Keyring,
    tokens: PlantTokens,
    request: TokenRequest,
    window_seconds: int,
    admit: Callable[[], Awaitable[None]],
) -> MqttToken:
    """Return a new MQTT token for an ACTIVE plant of method TOKEN that has signed the request.

    Each request must be newer than the last accepted one, so none is accepted twice. A token that was requested with the
    previous secret, in the hour after a rotation, ends with that secret.

    Args:
        database: The database.
        keyring: Decrypts the plant's secret.
        tokens: Issues the token.
        request: The request.
        window_seconds: Maximum difference between `sent_at` and this machine's clock.
        admit: Counts a request with a right signature. What it raises refuses the request.

    Raises:
        Unauthorized: The signature is wrong, the request is too old or was used before, or there is no such plant.
        Forbidden: The signature is right, and the plant is not ACTIVE or of another method.
    """
    now = utc_now()
    async with database.transaction() as db:
        plant = await store.find_token_plant(db, request.plant_id)
        keys = (await load_signing_keys(db, keyring, [request.plant_id])).get(request.plant_id)
        verified, valid_until = _verify(keys, request, now)
        if plant is None or not verified:
            await store.count_failures_soon(db, request.plant_id)
            plant = None
    if plant is None:
        log.info("token request refused", plant_id=str(request.plant_id), reason="signature")
        raise Unauthorized
    refusal = _refusal(plant, request, now, window_seconds)
    if refusal is None:
        await admit()
        async with database.transaction() as db:
            if await store.claim_token_request(db, request.plant_id, request.sent_at):
                await _record(db, Event.PLANT_TOKEN_RENEWED, plant, request)
                return tokens.issue(request.plant_id, plant.secret_rotated_at, valid_until)
        refusal = _repeated()
    async with database.transaction() as db:
        await _record(db, Event.PLANT_TOKEN_REFUSED, plant, request, reason=refusal.reason)
    log.info("token request refused", plant_id=str(request.plant_id), reason=refusal.reason)
    raise refusal.error


class _Refusal(NamedTuple):
    """Why a plant with a right signature gets no token: a word for records, and the response."""

    reason: str
    error: Unauthorized | Forbidden


def _repeated() -> _Refusal:
    detail = "sentAt: must be later than that of the last request"
    return _Refusal("repeated", Unauthorized("The request was used already.", [detail]))


def _verify(keys: SigningKeys | None, request: TokenRequest, now: datetime) -> tuple[bool, datetime | None]:
    """Return whether one of the plant's keys verifies the request, and until when that key is valid; None without an end."""
    signed = request.sig, str(request.plant_id), request.id, request.sent_at
    current, previous, until = keys if keys is not None else (_NO_KEY, None, None)
    if verify_token_request(current, *signed):
        return keys is not None, None
    if previous is not None and until is not None and now < until and verify_token_request(previous, *signed):
        return True, until
    return False, None


def _refusal(plant: store.TokenPlant, request: TokenRequest, now: datetime, window_seconds: int) -> _Refusal | None:
    if plant.lifecycle_status != Lifecycle.ACTIVE or plant.auth_method != AuthMethod.TOKEN:
        is_now = f"this one is {plant.lifecycle_status}, with authMethod {plant.auth_method}"
        return _Refusal("state", Forbidden(f"Only an ACTIVE plant whose authMethod is TOKEN gets MQTT tokens; {is_now}."))
    off = request.sent_at / 1000 - now.timestamp()
    if abs(off) > window_seconds:
        where = f"sentAt: is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} the service's clock"
        return _Refusal("clock", Unauthorized("Check the plant's clock.", [where]))
    if plant.token_requested_at is not None and request.sent_at <= plant.token_requested_at:
        return _repeated()
    return None


async def _record(db: Connection, event: Event, plant: store.TokenPlant, request: TokenRequest, **details: str) -> None:
    await record(
        db,
        event,
        Actor(ActorType.PLANT, str(request.plant_id), request.ip),
        Subject.plant(request.plant_id),
        organization_id=plant.organization_id,
        details=details,
        most_a_minute=_MOST_EVENTS[event],
    )
