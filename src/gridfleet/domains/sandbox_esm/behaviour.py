"""Behaviour of the sandbox's plants towards their client."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from gridfleet.domains.sandbox_esm import store
from gridfleet.domains.sandbox_esm.errors import SandboxPlantNotFound
from gridfleet.domains.sandbox_esm.models import EsiState, PlanResponse, Reading, SandboxPlant
from gridfleet.kernel.clock import EPOCH, measurable, round_up, utc_now
from gridfleet.kernel.db import Connection
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = ["READING_MINUTES", "carry_out", "judge", "plant_of", "plants_of", "readings", "validate"]

READING_MINUTES: Final = 5
_WIDTH: Final = timedelta(minutes=READING_MINUTES)


async def plants_of(db: Connection, client_id: str) -> list[SandboxPlant]:
    """Return the client's plants."""
    return await store.plants_of(db, client_id)


async def plant_of(db: Connection, client_id: str, external_plant_id: str) -> SandboxPlant:
    """Return one of the client's plants, locked until the transaction ends. Raises SandboxPlantNotFound."""
    plant = await store.find_plant_of(db, client_id, external_plant_id)
    if plant is None:
        raise SandboxPlantNotFound
    return plant


async def validate(db: Connection, client_id: str, external_plant_id: str, request_code: str) -> PlanResponse:
    """Return the response to a plan without changing anything. Raises SandboxPlantNotFound."""
    return judge(await plant_of(db, client_id, external_plant_id), request_code)


async def carry_out(
    db: Connection, client_id: str, external_plant_id: str, request_code: str, blocks: Sequence[TimeBlock]
) -> PlanResponse:
    """Set the plant's plan if its state allows it. The same request code again returns the first response.

    Raises SandboxPlantNotFound.
    """
    plant = await plant_of(db, client_id, external_plant_id)
    earlier = await store.find_response(db, plant.id, request_code)
    if earlier is not None:
        return earlier
    response = judge(plant, request_code)
    if not response.is_error:
        changed = await store.update_plant(db, plant.id, {"time_configs": blocks})
        assert changed is not None
        response = judge(changed, request_code)
    await store.keep_response(db, plant.id, response)
    return response


def judge(plant: SandboxPlant, request_code: str) -> PlanResponse:
    """Return a plant's response to a plan, by its state. The response of a plant that is not ready yet is not final."""
    if not plant.config_enabled:
        return PlanResponse(request_code, "CONFIG_DISABLED", "The plant takes no plans.", True, True, plant.version)
    if plant.esi_state is not EsiState.PLC_READY:
        return PlanResponse(request_code, "PLANT_NOT_READY", f"The plant is {plant.esi_state}.", True, False, plant.version)
    return PlanResponse(request_code, "OK", "The plant takes the plan.", False, True, plant.version)


def readings(plant: SandboxPlant, start: datetime, end: datetime) -> Iterator[Reading]:
    """Return the grid meter's whole intervals between two times, at most up to now.

    The curve has sun by day and loads in the morning and the evening. It is the same for each call.
    """
    start, end = measurable(start, min(end, utc_now()))
    start = round_up(start, _WIDTH)
    while start + _WIDTH <= end:
        power = _load_kw(plant, start) - _sun_kw(plant, start)
        yield Reading(start, f"{plant.external_plant_id}-M1", READING_MINUTES, round(power * READING_MINUTES / 60, 4))
        start += _WIDTH


def _sun_kw(plant: SandboxPlant, time: datetime) -> float:
    hour = time.hour + time.minute / 60
    clouds = 0.7 + 0.3 * math.sin(plant.id.int % 1_000 + (time - EPOCH).days * 2.4)
    return plant.fve_peak_power_kwp * clouds * max(0.0, math.sin(math.pi * (hour - 6) / 12))


def _load_kw(plant: SandboxPlant, time: datetime) -> float:
    if not plant.plant_with_load:
        return 0.0
    hour = time.hour + time.minute / 60
    peaks = sum(math.exp(-((hour - peak) ** 2) / 3) for peak in (7.5, 19.0))
    return (0.5 + peaks) * max(1.0, plant.fve_peak_power_kwp / 5)
