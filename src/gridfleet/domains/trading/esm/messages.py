"""Records of an ESM's responses. Unknown members are ignored; missing and mistyped members make the record invalid."""

from datetime import datetime
from typing import Annotated

import msgspec

from gridfleet.protocol.time_blocks import MAX_BLOCKS, TimeBlock

__all__ = [
    "EsmConfig",
    "EsmPlant",
    "EsmPlantName",
    "EsmPlants",
    "EsmReading",
    "EsmReadings",
    "EsmRefusal",
    "EsmToken",
    "PlanResponse",
]

_STORABLE = "^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"

Text = Annotated[str, msgspec.Meta(max_length=2_000, pattern=_STORABLE)]
Version = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=_STORABLE)]


class EsmToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_in` in seconds."""

    access_token: Annotated[str, msgspec.Meta(min_length=1, max_length=8_192, pattern=r"^[!-~]+\Z")]
    expires_in: float = 3600.0


class EsmRefusal(msgspec.Struct, frozen=True):
    """The body of a response with an error status."""

    message: str = ""


class EsmPlants(msgspec.Struct, frozen=True):
    """The ESM's plants, each undecoded, so that an invalid record does not affect the others."""

    plants: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=20_000)]


class EsmPlantName(msgspec.Struct, frozen=True, rename="camel"):
    """The id of the plant in a record, even if the rest of the record is invalid."""

    external_plant_id: Word


class EsmPlant(EsmPlantName, frozen=True, rename="camel"):
    """A plant as the ESM describes it. Capacity in kWh, peak power in kWp, coordinates in degrees."""

    capacity_kwh: float | None = None
    fve_peak_power_kwp: float | None = None
    config_enabled: bool | None = None
    description: Text | None = None
    esi_state: Word | None = None
    latitude: Annotated[float, msgspec.Meta(ge=-90, le=90)] | None = None
    longitude: Annotated[float, msgspec.Meta(ge=-180, le=180)] | None = None
    plant_with_load: bool | None = None
    tag: Text | None = None


class EsmConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The current plan of a plant."""

    config_enabled: bool
    esi_state: str
    version: Version
    time_configs: Annotated[list[TimeBlock], msgspec.Meta(max_length=MAX_BLOCKS)]


class PlanResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The ESM's response to a plan."""

    request_code: str
    result_code: Word
    is_error: bool
    is_terminal: bool = True
    message: Text = ""
    version: Version | None = None


class EsmReading(msgspec.Struct, frozen=True):
    """Energy in kWh of the `interval` minutes from `time` on."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    meter_id: Word
    interval: Annotated[float, msgspec.Meta(gt=0)]
    energy: float


class EsmReadings(msgspec.Struct, frozen=True):
    """Readings of a plant's meters."""

    readings: list[EsmReading]
