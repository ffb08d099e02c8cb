"""Administration of the sandbox ESM by SuperAdmins."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.api.http import SA, Call, Message, endpoint, super_admin
from gridfleet.domains.organizations import registry as organizations
from gridfleet.domains.sandbox_esm import access, plants
from gridfleet.domains.sandbox_esm.models import EsiState, NewSandboxPlant, SandboxPlant, SandboxPlantChanges
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.protocol.time_blocks import TimeBlocks, complaints_about_blocks

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
ExternalId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=120,
        pattern=r"^(?!\.{1,2}$)[^/\\]*$",
        extra={"rule": "must be able to stand in a URL: no slashes, and not only dots"},
    ),
]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Description = Annotated[str, msgspec.Meta(max_length=500)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class OfOrganization(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The organisation of the sandbox."""

    org_id: UUID


class SandboxCredentials(msgspec.Struct, frozen=True, rename="camel"):
    """Values for the organisation's trading configuration. The secret is returned only once."""

    client_id: str
    client_secret: str
    esm_api_url: str


class NewEsmPlant(msgspec.Struct, frozen=True, rename="camel"):
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
        """Check that the blocks do not overlap."""
        return complaints_about_blocks(self.time_configs, "timeConfigs")


class EsmPlantPatch(msgspec.Struct, frozen=True, rename="camel"):
    """Changes to a sandbox plant; omitted fields stay unchanged."""

    capacity_kwh: Amount | UnsetType = UNSET
    config_enabled: bool | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    fve_peak_power_kwp: Amount | UnsetType = UNSET
    name: Name | UnsetType = UNSET
    time_configs: TimeBlocks | UnsetType = UNSET
    esi_state: EsiState | UnsetType = UNSET

    def complaints(self) -> Iterator[str]:
        """Check that the blocks do not overlap."""
        return complaints_about_blocks(() if self.time_configs is UNSET else self.time_configs, "timeConfigs")


_OF_ORGANIZATION = ("INVALID_UUID", "ORGANIZATION_NOT_FOUND", *SA)
_OF_PLANT = ("INVALID_UUID", "NOT_FOUND", *SA)


@endpoint(
    "POST",
    "/api/v1/svc-esm/admin/enable",
    caller=super_admin(),
    codes=_OF_ORGANIZATION,
    bad_input="INVALID_UUID",
)
async def enable_sandbox(call: Call, caller: UserCaller, db: Connection, query: OfOrganization) -> SandboxCredentials:
    """Create a sandbox ESM for an organisation, or issue new credentials. Earlier credentials end immediately."""
    call.no_store()
    made = await access.enable(db, caller.as_actor, query.org_id)
    return SandboxCredentials(made.client_id, made.client_secret, call.state.settings.sandbox_esm_url)


@endpoint(
    "POST",
    "/api/v1/svc-esm/admin/disable",
    caller=super_admin(),
    codes=_OF_ORGANIZATION,
    bad_input="INVALID_UUID",
)
async def disable_sandbox(caller: UserCaller, db: Connection, query: OfOrganization) -> Message:
    """End an organisation's access to the sandbox. Its plants there stay."""
    await access.disable(db, caller.as_actor, query.org_id)
    return Message("The sandbox ESM is disabled for the organisation.")


@endpoint(
    "GET",
    "/api/v1/svc-esm/admin/status",
    caller=super_admin(),
    codes=_OF_ORGANIZATION,
    bad_input="INVALID_UUID",
)
async def get_sandbox_status(db: Connection, query: OfOrganization) -> Message:
    """Return whether an organisation has a sandbox."""
    await organizations.get(db, query.org_id)
    word = "enabled" if await access.is_enabled(db, query.org_id) else "disabled"
    return Message(f"The sandbox ESM is {word} for the organisation.")


@endpoint("GET", "/api/v1/svc-esm/admin/plants", caller=super_admin(), codes=SA)
async def list_sandbox_plants(db: Connection) -> list[SandboxPlant]:
    """List the sandbox's plants of all clients, newest first."""
    return await plants.list_plants(db)


@endpoint(
    "POST",
    "/api/v1/svc-esm/admin/plants",
    caller=super_admin(),
    codes=("VALIDATION_ERROR", *SA),
    success=201,
)
async def create_sandbox_plant(db: Connection, body: NewEsmPlant) -> SandboxPlant:
    """Add a plant to a client, whose id `enable` returned."""
    return await plants.create_plant(db, NewSandboxPlant(**msgspec.structs.asdict(body)))


@endpoint(
    "GET",
    "/api/v1/svc-esm/admin/plants/{id}",
    caller=super_admin(),
    codes=_OF_PLANT,
    bad_path_id="INVALID_UUID",
)
async def get_sandbox_plant(db: Connection, id: UUID) -> SandboxPlant:
    """Return one plant of the sandbox."""
    return await plants.get_plant(db, id)


@endpoint(
    "PATCH",
    "/api/v1/svc-esm/admin/plants/{id}",
    caller=super_admin(),
    codes=_OF_PLANT,
    bad_path_id="INVALID_UUID",
)
async def update_sandbox_plant(db: Connection, id: UUID, body: EsmPlantPatch) -> SandboxPlant:
    """Change a plant of the sandbox: its properties and its behaviour."""
    return await plants.change_plant(db, id, SandboxPlantChanges(**msgspec.structs.asdict(body)))


@endpoint(
    "DELETE",
    "/api/v1/svc-esm/admin/plants/{id}",
    caller=super_admin(),
    codes=_OF_PLANT,
    bad_path_id="INVALID_UUID",
)
async def delete_sandbox_plant(db: Connection, id: UUID) -> Message:
    """Delete a plant from the sandbox."""
    await plants.delete_plant(db, id)
    return Message("The sandbox plant was deleted.")
