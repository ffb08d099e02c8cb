"""The HTTP API of an ESM, as the sandbox provides it to its clients."""

import asyncio
import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal
from urllib.parse import parse_qs, unquote_plus

import msgspec
from pydantic import Field

from gridfleet.api.http import Call, Input, endpoint, esm_client, public
from gridfleet.api.time_blocks import TimeBlocks
from gridfleet.domains.sandbox_esm import access, behaviour
from gridfleet.domains.sandbox_esm.errors import ClientRefused
from gridfleet.domains.sandbox_esm.models import PlanResponse, Reading, SandboxPlant
from gridfleet.kernel.clock import LONGEST_MONTH
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.protocol.time_blocks import TimeBlock, complaints_about_blocks

_CODES: Final = ("BAD_REQUEST", "UNAUTHORIZED", "INTERNAL_SERVER_ERROR")


class EsmTokenRequest(Input):
    """The form of a token request."""

    grant_type: Literal["client_credentials"] = Field(alias="grant_type")


class EsmToken(msgspec.Struct, frozen=True):
    """A bearer token. `expires_in` is in seconds."""

    access_token: str
    token_type: str
    expires_in: int


class EsmPlant(msgspec.Struct, frozen=True, rename="camel"):
    """A plant in the ESM's format. Capacity in kWh, peak power in kWp. Sandbox plants have no location."""

    external_plant_id: str
    name: str
    description: str | None
    capacity_kwh: float
    fve_peak_power_kwp: float
    config_enabled: bool
    plant_with_load: bool
    esi_state: str
    latitude: float | None
    longitude: float | None
    tag: str | None

    @classmethod
    def of(cls, plant: SandboxPlant) -> "EsmPlant":
        """Return the plant in the ESM's format."""
        known = {name: getattr(plant, name) for name in cls.__struct_fields__ if name not in ("latitude", "longitude", "tag")}
        return cls(**known, latitude=None, longitude=None, tag="sandbox")


class EsmPlants(msgspec.Struct, frozen=True):
    """All plants of a client."""

    plants: list[EsmPlant]


class EsmConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The current plan of a plant."""

    config_enabled: bool
    esi_state: str
    version: int
    time_configs: list[TimeBlock]


class EsmPlan(Input):
    """A plan with an id that identifies it when it is sent again."""

    request_code: Annotated[str, Field(min_length=1, max_length=120)]
    time_configs: TimeBlocks

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each overlap between blocks."""
        return complaints_about_blocks(self.time_configs)


class MeterRange(Input):
    """Time range of readings."""

    since: datetime = Field(alias="from")
    until: datetime = Field(alias="to")


class Readings(msgspec.Struct, frozen=True):
    """Readings of a plant's meter, oldest first."""

    readings: list[Reading]


@endpoint(
    "POST",
    "/api/v1/svc-esm/oauth/token",
    caller=public(),
    codes=_CODES,
    content_types=("application/x-www-form-urlencoded",),
    body_record=EsmTokenRequest,
    max_body_bytes=4 * 1024,
    addition=True,
)
async def issue_esm_token(call: Call, db: Connection, body: bytes) -> EsmToken:
    """Issue a token to a client, by the client credentials grant of OAuth 2.0.

    Send id and secret as HTTP Basic, each form-encoded first. The token is valid for an hour.
    """
    call.no_store()
    client_id, secret = _basic(call)
    try:
        form = parse_qs(body.decode("ascii", "replace"), max_num_fields=20)
    except ValueError:
        raise ValidationFailed(details=["body: must have at most 20 fields"]) from None
    if form.get("grant_type") != ["client_credentials"]:
        raise ValidationFailed(details=["grant_type: must be client_credentials"])
    token = await access.issue_token(db, client_id, secret)
    return EsmToken(token, "Bearer", int(access.TOKEN_LIFETIME.total_seconds()))


@endpoint("GET", "/api/v1/svc-esm/plants", caller=esm_client(), codes=_CODES, addition=True)
async def list_esm_plants(client: str, db: Connection) -> EsmPlants:
    """List the client's plants."""
    return EsmPlants([EsmPlant.of(plant) for plant in await behaviour.plants_of(db, client)])


@endpoint("GET", "/api/v1/svc-esm/plants/{externalPlantId}", caller=esm_client(), codes=("NOT_FOUND", *_CODES), addition=True)
async def get_esm_plant(client: str, db: Connection, external_plant_id: str) -> EsmPlant:
    """Return one of the client's plants."""
    return EsmPlant.of(await behaviour.plant_of(db, client, external_plant_id))


@endpoint(
    "GET", "/api/v1/svc-esm/plants/{externalPlantId}/config", caller=esm_client(), codes=("NOT_FOUND", *_CODES), addition=True
)
async def get_esm_config(client: str, db: Connection, external_plant_id: str) -> EsmConfig:
    """Return the plan that the plant follows."""
    plant = await behaviour.plant_of(db, client, external_plant_id)
    return EsmConfig(plant.config_enabled, plant.esi_state, plant.version, plant.time_configs)


@endpoint(
    "PUT", "/api/v1/svc-esm/plants/{externalPlantId}/config", caller=esm_client(), codes=("NOT_FOUND", *_CODES), addition=True
)
async def put_esm_config(client: str, db: Connection, external_plant_id: str, body: EsmPlan) -> PlanResponse:
    """Set another plan. The same `requestCode` within a day returns the first response again."""
    return await behaviour.carry_out(db, client, external_plant_id, body.request_code, body.time_configs)


@endpoint(
    "POST",
    "/api/v1/svc-esm/plants/{externalPlantId}/config/validate",
    caller=esm_client(),
    codes=("NOT_FOUND", *_CODES),
    addition=True,
)
async def validate_esm_config(client: str, db: Connection, external_plant_id: str, body: EsmPlan) -> PlanResponse:
    """Validate a plan for the plant without changing anything."""
    return await behaviour.validate(db, client, external_plant_id, body.request_code)


@endpoint(
    "GET", "/api/v1/svc-esm/plants/{externalPlantId}/meters", caller=esm_client(), codes=("NOT_FOUND", *_CODES), addition=True
)
async def list_esm_readings(client: str, db: Connection, external_plant_id: str, query: MeterRange) -> Readings:
    """Return what the plant's grid meter counted, every five minutes, over at most a month."""
    plant = await behaviour.plant_of(db, client, external_plant_id)
    if query.since >= query.until or query.until - query.since > LONGEST_MONTH:
        raise ValidationFailed(details=["from: must be before to, by at most 31 days and three hours"])
    # In a thread: a month takes 60 ms.
    return Readings(await asyncio.to_thread(lambda: list(behaviour.readings(plant, query.since, query.until))))


def _basic(call: Call) -> tuple[str, str]:
    scheme, _, encoded = call.headers.get("authorization", "").partition(" ")
    try:
        client_id, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:  # not base64, or not UTF-8
        raise ClientRefused from None
    if scheme.lower() != "basic" or not colon or "\0" in unquote_plus(client_id):
        raise ClientRefused
    return unquote_plus(client_id), unquote_plus(secret)
