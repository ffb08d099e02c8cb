"""What is created for a plant at the moment at which it moves to another organisation belongs to the new one, or is refused."""

import asyncio
from uuid import UUID

import pytest
from msgspec import UNSET

from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.models import EsmFacts, PlantChanges
from gridfleet.domains.plants.registry import update_plant, write_esm_facts
from gridfleet.domains.plants.sub_devices.models import DeviceType
from gridfleet.domains.plants.sub_devices.registry import create_sub_device
from gridfleet.domains.telemetry.frames.lookup import load_sources
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.interleaving import until_blocked
from support.builders.telemetry_records import RecordedPlant


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    return await RecordedPlant.create(database)


@pytest.fixture
async def buyer(database: Database) -> UUID:
    """The organisation that the plant moves to."""
    return (await add_organization(database)).id


def administrator(plant: RecordedPlant) -> OrgScope:
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    return OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)


async def move(db: Connection, plant: RecordedPlant, to: UUID) -> None:
    await update_plant(db, administrator(plant), plant.id, PlantChanges(organization_id=to))


async def moved(plant: RecordedPlant, to: UUID) -> None:
    async with plant.database.transaction() as db:
        await move(db, plant, to)


async def add_device(db: Connection, plant: RecordedPlant) -> None:
    await create_sub_device(
        db,
        administrator(plant),
        plant.id,
        external_id="BAT1",
        name="Battery",
        type=DeviceType.BATTERY,
        serial_number=None,
        template_id=None,
        metadata={},
    )


async def added(plant: RecordedPlant) -> None:
    async with plant.database.transaction() as db:
        await add_device(db, plant)


async def loaded(plant: RecordedPlant) -> None:
    async with plant.database.transaction() as db:
        await load_sources(db, [plant.id])


async def owners(plant: RecordedPlant, table: str) -> set[UUID]:
    async with plant.database.transaction() as db:
        cursor = await db.execute(f"SELECT organization_id FROM {table} WHERE plant_id = %s".encode(), (plant.id,))
        return {row[0] for row in await cursor.fetchall()}


async def test_a_sub_device_created_while_its_plant_moves_is_refused(plant: RecordedPlant, buyer: UUID) -> None:
    async with plant.database.transaction() as db:
        await move(db, plant, buyer)
        adding = asyncio.create_task(added(plant))
        await until_blocked(plant.database)
    with pytest.raises(PlantNotFound):
        await adding
    assert await owners(plant, "sub_device") == set()


async def test_a_sub_device_created_just_before_its_plant_moves_moves_along(plant: RecordedPlant, buyer: UUID) -> None:
    async with plant.database.transaction() as db:
        await add_device(db, plant)
        moving = asyncio.create_task(moved(plant, buyer))
        await until_blocked(plant.database)
    await moving
    assert await owners(plant, "sub_device") == {buyer}


async def test_sources_made_while_their_plant_moves_are_the_new_organisations(plant: RecordedPlant, buyer: UUID) -> None:
    await plant.add_device("BAT1")
    async with plant.database.transaction() as db:
        await move(db, plant, buyer)
        loading = asyncio.create_task(loaded(plant))
        await asyncio.wait({loading}, timeout=0.5)
    await loading
    assert await owners(plant, "telemetry_source") == {buyer}


async def test_sources_made_just_before_their_plant_moves_move_along(plant: RecordedPlant, buyer: UUID) -> None:
    await plant.add_device("BAT1")
    async with plant.database.transaction() as db:
        await load_sources(db, [plant.id])
        moving = asyncio.create_task(moved(plant, buyer))
        await asyncio.wait({moving}, timeout=0.5)
    await moving
    assert await owners(plant, "telemetry_source") == {buyer}


@pytest.mark.parametrize("given", [None, "P7"])
async def test_a_plant_that_moves_is_no_longer_linked_to_the_esm_it_leaves(
    plant: RecordedPlant, buyer: UUID, given: str | None
) -> None:
    facts = EsmFacts(50.0, 9.9, True, "South roof", "PLC_READY", 50.1, 14.4, True, "A")
    async with plant.database.transaction() as db:
        await update_plant(db, administrator(plant), plant.id, PlantChanges(external_plant_id="P1"))
        await write_esm_facts(db, plant.organization_id, plant.id, "P1", facts)
        changes = PlantChanges(organization_id=buyer, external_plant_id=UNSET if given is None else given)
        updated = await update_plant(db, administrator(plant), plant.id, changes)
    assert (updated.organization_id, updated.external_plant_id) == (buyer, given)
    assert [getattr(updated, name) for name in EsmFacts._fields] == [None] * len(EsmFacts._fields)


async def test_a_plant_that_stays_keeps_its_link(plant: RecordedPlant) -> None:
    async with plant.database.transaction() as db:
        await update_plant(db, administrator(plant), plant.id, PlantChanges(external_plant_id="P1"))
        changes = PlantChanges(organization_id=plant.organization_id)
        assert (await update_plant(db, administrator(plant), plant.id, changes)).external_plant_id == "P1"


async def test_a_plant_moves_to_an_organisation_that_has_the_external_id(plant: RecordedPlant) -> None:
    other = await RecordedPlant.create(plant.database)
    async with plant.database.transaction() as db:
        for one in (plant, other):
            await update_plant(db, administrator(one), one.id, PlantChanges(external_plant_id="P1"))
        await move(db, plant, other.organization_id)
    assert await owners(plant, "telemetry_source") <= {other.organization_id}
