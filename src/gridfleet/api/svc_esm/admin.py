"""Administration of the sandbox ESM by SuperAdmins."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import SA, Call, Input, Message, Pattern, endpoint, omitted, super_admin
from gridfleet.api.time_blocks import TimeBlocks
from gridfleet.domains.organizations import registry as organizations
from gridfleet.domains.sandbox_esm import access, plants
from gridfleet.domains.sandbox_esm.models import EsiState, NewSandboxPlant, SandboxPlant, SandboxPlantChanges
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.protocol.time_blocks import complaints_about_blocks

Id = Annotated[str, Field(min_length=1, max_length=120)]
ExternalId = Annotated[
    str,
    Field(min_length=1, max_length=120),
    Pattern(r"^(?!\.{1,2}$)[^/\\]*$", "must fit into a URL: no slashes, and not only dots"),
]
Name = Annotated[str, Field(min_length=1, max_length=255)]
Description = Annotated[str, Field(max_length=500)]
Amount = Annotated[float, Field(ge=0, le=1_000_000_000)]
"""At most a thousand GW or GWh. With the largest numbers, the energy of a reading would be infinite."""


class OfOrganization(Input):
    """The organisation of the sandbox."""

    org_id: UUID


class SandboxCredentials(msgspec.Struct, frozen=True, rename="camel"):
    """Values for the organisation's trading configuration. The secret is returned only once."""

    client_id: str
    client_secret: str
    esm_api_url: str


class NewEsmPlant(Input):
    """A sandbox plant to create. Capacity in kWh, peak power in kWp."""

    client_id: Id
    external_plant_id: ExternalId
    name: Name
    capacity_kwh: Amount = 0
    fve_peak_power_kwp: Amount = 0
    config_enabled: bool = True
    description: Description | None = None
    time_configs: TimeBlocks = ()

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each overlap between blocks."""
        return complaints_about_blocks(self.time_configs)


class EsmPlantPatch(Input):
    """Changes to a sandbox plant; omitted fields stay unchanged."""

    capacity_kwh: Amount = omitted()
    config_enabled: bool = omitted()
    description: Description | None = omitted()
    fve_peak_power_kwp: Amount = omitted()
    name: Name = omitted()
    time_configs: TimeBlocks = omitted()
    esi_state: EsiState = omitted()

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each overlap between blocks."""
        return complaints_about_blocks(self.time_configs if "time_configs" in self.model_fields_set else ())


_OF_ORGANIZATION = ("INVALID_UUID", "ORGANIZATION_NOT_FOUND", *SA)
_OF_PLANT = ("INVALID_UUID", "NOT_FOUND", *SA)


@endpoint("POST", "/api/v1/svc-esm/admin/enable", caller=super_admin(), codes=_OF_ORGANIZATION, bad_input="INVALID_UUID")
async def enable_sandbox(call: Call, caller: UserCaller, db: Connection, query: OfOrganization) -> SandboxCredentials:
    """Create a sandbox ESM for an organisation, or issue new credentials. Earlier credentials become invalid immediately."""
    call.no_store()
    made = await access.enable(db, caller.as_actor, query.org_id)
    return SandboxCredentials(made.client_id, made.client_secret, call.state.settings.sandbox_esm_url)


@endpoint("POST", "/api/v1/svc-esm/admin/disable", caller=super_admin(), codes=_OF_ORGANIZATION, bad_input="INVALID_UUID")
async def disable_sandbox(caller: UserCaller, db: Connection, query: OfOrganization) -> Message:
    """End an organisation's access to the sandbox. Its plants there stay."""
    await access.disable(db, caller.as_actor, query.org_id)
    return Message("The sandbox ESM is disabled for the organisation.")


@endpoint("GET", "/api/v1/svc-esm/admin/status", caller=super_admin(), codes=_OF_ORGANIZATION, bad_input="INVALID_UUID")
async def get_sandbox_status(db: Connection, query: OfOrganization) -> Message:
    """Return whether an organisation has a sandbox."""
    await organizations.get(db, query.org_id)
    word = "enabled" if await access.is_enabled(db, query.org_id) else "disabled"
    return Message(f"The sandbox ESM is {word} for the organisation.")


@endpoint("GET", "/api/v1/svc-esm/admin/plants", caller=super_admin(), codes=SA)
async def list_sandbox_plants(db: Connection) -> list[SandboxPlant]:
    """List the sandbox's plants of all clients, newest first."""
    return await plants.list_plants(db)


@endpoint("POST", "/api/v1/svc-esm/admin/plants", caller=super_admin(), codes=("VALIDATION_ERROR", *SA), success=201)
async def create_sandbox_plant(caller: UserCaller, db: Connection, body: NewEsmPlant) -> SandboxPlant:
    """Add a plant to a client, whose id `enable` returned."""
    return await plants.create_plant(db, caller.as_actor, NewSandboxPlant(**dict(body)))


@endpoint("GET", "/api/v1/svc-esm/admin/plants/{id}", caller=super_admin(), codes=_OF_PLANT)
async def get_sandbox_plant(db: Connection, id: UUID) -> SandboxPlant:
    """Return one plant of the sandbox."""
    return await plants.get_plant(db, id)


@endpoint("PATCH", "/api/v1/svc-esm/admin/plants/{id}", caller=super_admin(), codes=_OF_PLANT)
async def update_sandbox_plant(caller: UserCaller, db: Connection, id: UUID, body: EsmPlantPatch) -> SandboxPlant:
    """Change a plant of the sandbox: its properties and its behaviour."""
    return await plants.change_plant(db, caller.as_actor, id, SandboxPlantChanges(**dict(body)))


@endpoint("DELETE", "/api/v1/svc-esm/admin/plants/{id}", caller=super_admin(), codes=_OF_PLANT)
async def delete_sandbox_plant(caller: UserCaller, db: Connection, id: UUID) -> Message:
    """Delete a plant from the sandbox."""
    await plants.delete_plant(db, caller.as_actor, id)
    return Message("The sandbox plant was deleted.")
