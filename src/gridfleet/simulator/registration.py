"""Creation of a demo organisation with its plants through the REST API. Existing records are reused."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gridfleet.sdk.plant import Package
from gridfleet.simulator.errors import ApiRefused, SimulationError
from gridfleet.simulator.fleet import SimulatedSite
from gridfleet.simulator.measurements import PLANT
from gridfleet.simulator.rest import Api
from gridfleet.simulator.signals import Signal, SignalWriter
from gridfleet.simulator.state import StateFolder

__all__ = ["Organization", "RegisteredPlant", "register"]

_AT_ONCE: Final = 4
_BAD_REQUEST: Final = 400
_CONFLICT: Final = 409


class Organization(msgspec.Struct, frozen=True):
    """The organisation that owns the simulated plants."""

    id: str
    slug: str
    name: str


@dataclass(frozen=True, slots=True)
class RegisteredPlant:
    """A registered plant with its credentials and the signal writers of its devices."""

    id: str
    serial_number: str
    site: SimulatedSite
    package: Package
    writers: dict[str, SignalWriter]
    """Signal writers by external id. `PLANT` is for the plant's own fields."""


class _Template(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    type: str
    level: str
    version: int
    is_system: bool
    signals: list[Signal]


async def register(
    api: Api, sites: Sequence[SimulatedSite], state: StateFolder, slug: str, done: Callable[[RegisteredPlant], None]
) -> tuple[Organization, list[RegisteredPlant]]:
    """Return the organisation `slug` and its plants, ready to connect. Calls `done` for each plant that is ready.

    Raises:
        ApiRefused: If the service responds with an error.
        ApiUnreachable: If the service does not respond.
        SimulationError: If the system templates are missing.
    """
    templates = await _system_templates(api)
    organization = await _organization(api, slug)
    plants = {plant["serialNumber"]: plant for plant in await api.list("/plants", organization.id)}
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(site: SimulatedSite) -> RegisteredPlant:
        async with gate:
            plant = await _register_plant(api, organization.id, site, plants, templates, state)
            done(plant)
            return plant

    try:
        async with asyncio.TaskGroup() as tasks:
            registering = [tasks.create_task(one(site)) for site in sites]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return organization, [task.result() for task in registering]


async def _system_templates(api: Api) -> dict[str, _Template]:
    """Return the newest system template for plants (`PLANT`) and for each type of sub-device."""
    found: dict[str, _Template] = {}
    for template in msgspec.convert(await api.get("/device-templates"), list[_Template]):
        kind = PLANT if template.level == "PLANT" else template.type
        if template.is_system and (kind not in found or template.version > found[kind].version):
            found[kind] = template
    missing = {PLANT, "CABINET", "METER", "INVERTER", "BATTERY"} - found.keys()
    if missing:
        raise SimulationError(
            f"the service has no system templates for {', '.join(sorted(name or 'plants' for name in missing))}"
        )
    return found


async def _organization(api: Api, slug: str) -> Organization:
    for record in await api.list("/organizations"):
        if record["slug"] == slug:
            return msgspec.convert(record, Organization)
    body = {"name": slug.replace("-", " ").title(), "slug": slug, "description": "Simulated plants"}
    return msgspec.convert(await api.post("/organizations", body), Organization)


async def _register_plant(
    api: Api,
    org: str,
    site: SimulatedSite,
    plants: dict[str, dict[str, Any]],
    templates: dict[str, _Template],
    state: StateFolder,
) -> RegisteredPlant:
    record, package = await _provisioned(api, org, site, plants, state)
    plant_id = record["id"]
    if record.get("templateId") != templates[PLANT].id:
        await api.patch(f"/plants/{plant_id}", {"templateId": templates[PLANT].id}, org)
    writers = {PLANT: SignalWriter(templates[PLANT].signals)}
    known = {device["externalId"] for device in await api.list(f"/plants/{plant_id}/sub-devices", org)}
    for device in site.devices:
        template = templates[device.type]
        writers[device.external_id] = SignalWriter(template.signals)
        if device.external_id not in known:
            body = {"externalId": device.external_id, "name": device.name, "type": device.type, "templateId": template.id}
            await api.post(f"/plants/{plant_id}/sub-devices", body, org)
    return RegisteredPlant(plant_id, record["serialNumber"], site, package, writers)


async def _provisioned(
    api: Api, org: str, site: SimulatedSite, plants: dict[str, dict[str, Any]], state: StateFolder
) -> tuple[dict[str, Any], Package]:
    """Return the first plant with the site's serial number whose credentials are available, and its package.

    The service returns a package only once. If the state folder was lost, a plant with a new serial number is used.
    """
    generation = 1
    while True:
        serial_number = site.serial_number if generation == 1 else f"{site.serial_number}.{generation}"
        record = plants.get(serial_number) or await _create_plant(api, org, site, serial_number)
        if record["lifecycleStatus"] != "DECOMMISSIONED":
            package = state.load_package(record["id"]) or await _provision(api, org, record["id"], state)
            if package is not None and package.auth_method == record["authMethod"]:
                return record, package
        generation += 1


async def _create_plant(api: Api, org: str, site: SimulatedSite, serial_number: str) -> dict[str, Any]:
    body = {
        "name": site.name,
        "serialNumber": serial_number,
        "type": "CONTROLLER",
        "authMethod": site.auth_method,
        "latitude": site.design.latitude,
        "longitude": site.design.longitude,
        "timeZone": site.time_zone,
        "metadata": {"simulated": True},
    }
    created: dict[str, Any] = await api.post("/plants", body, org)
    return created


async def _provision(api: Api, org: str, plant_id: str, state: StateFolder) -> Package | None:
    try:
        response = await api.post(f"/plants/{plant_id}/provision", None, org)
    except ApiRefused as error:
        if error.status in (_BAD_REQUEST, _CONFLICT):
            return None
        raise
    document = msgspec.json.encode(response)
    state.save_package(plant_id, document)
    return Package.parse(document)
