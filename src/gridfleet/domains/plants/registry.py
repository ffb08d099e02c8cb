"""Create, find, list and change plants."""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from psycopg import errors as pg

from gridfleet.domains.audit.differences import differences
from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record, record_in
from gridfleet.domains.device_templates.catalogue import get_template
from gridfleet.domains.device_templates.errors import TemplateNotFound
from gridfleet.domains.device_templates.models import TemplateLevel
from gridfleet.domains.device_templates.roles import former_roles
from gridfleet.domains.plants import store
from gridfleet.domains.plants.commands.expiry import PLANT_MOVED, end_open_commands
from gridfleet.domains.plants.connections import queue_purge
from gridfleet.domains.plants.errors import PlantNotFound, PlantSerialTaken, PlantStateForbids, TemplateWrongLevel
from gridfleet.domains.plants.former_roles import store as roles_store
from gridfleet.domains.plants.groups import store as groups
from gridfleet.domains.plants.models import AuthMethod, EsmFacts, Lifecycle, OwnPlace, Plant, PlantChanges, PlantType
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.jobs import defer
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = [
    "BOTH_COORDINATES",
    "FOLLOW_MOVES",
    "count_plants",
    "create_plant",
    "get_plant",
    "linked_plants",
    "list_plants",
    "plants_before",
    "require_room",
    "update_plant",
    "visible_among",
    "write_esm_facts",
]

BOTH_COORDINATES: Final = "must be set together with longitude, or both be null"
"""The complaint about a single coordinate."""

MOST_PLANTS: Final = 100_000
"""The most plants of an organisation: some responses name all of them (docs/decisions/0428)."""

FOLLOW_MOVES: Final = "alerts.follow_moves"
"""The job that moves the alerts of plants that have moved."""

_WRITABLE: Final = [name for name in PlantChanges.__struct_fields__ if name != "organization_id"]


async def create_plant(
    db: Connection,
    org: OrgScope,
    *,
    name: str,
    serial_number: str,
    type: PlantType,
    auth_method: AuthMethod,
    metadata: dict[str, Any],
    place: OwnPlace,
) -> Plant:
    """Create a PENDING plant without credentials.

    Raises:
        PlantSerialTaken: The organisation has a plant with this serial number.
        Forbidden: The caller is limited to some plants.
        ValidationFailed: The organisation has too many plants.
    """
    if org.plant_ids is not None:
        raise Forbidden("A key that is limited to some plants cannot create plants.")
    await require_room(db, org, 1)
    plant = await store.insert(db, org, new_id(), name, serial_number, type, auth_method, metadata, place)
    if plant is None:
        raise PlantSerialTaken
    details = {"name": name, "serialNumber": serial_number, "authMethod": auth_method}
    await record_in(db, org, Event.PLANT_CREATED, Subject.plant(plant.id), details)
    return plant


async def require_room(db: Connection, org: OrgScope, new: int) -> None:
    """Check that the organisation may have `new` further plants. Concurrent requests may exceed the maximum slightly.

    Raises:
        ValidationFailed: It would have too many.
    """
    if await store.count(db, org, None) + new > MOST_PLANTS:
        raise ValidationFailed(details=[f"plants: the organisation would have more than {MOST_PLANTS:,}, the maximum"])


async def get_plant(db: Connection, org: OrgScope, plant_id: UUID) -> Plant:
    """Return one plant.

    Raises:
        PlantNotFound: There is no such plant.
    """
    plant = await store.find(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    return plant


async def visible_among(db: Connection, org: OrgScope, plant_ids: Collection[UUID]) -> set[UUID]:
    """Return the plants of `plant_ids` that the caller may see."""
    return await store.visible_among(db, org, plant_ids)


async def list_plants(db: Connection, org: OrgScope, auth_method: AuthMethod | None, paging: Paging) -> Page[Plant]:
    """Return one page of the organisation's plants, newest first."""
    total = await store.count(db, org, auth_method)
    return Page.of(await store.page(db, org, auth_method, paging, total), total, paging)


async def plants_before(db: Connection, org: OrgScope, last: Plant | None, limit: int) -> list[Plant]:
    """Return up to `limit` plants, newest first: those that follow `last`, or the newest ones."""
    return await store.before(db, org, last, limit)


async def update_plant(db: Connection, org: OrgScope, plant_id: UUID, changes: PlantChanges) -> Plant:
    """Change a plant and return it. An empty change returns it as it is.

    Raises:
        PlantNotFound: There is no such plant.
        PlantSerialTaken: The organisation has a plant with this serial number.
        TemplateNotFound: There is no such template.
        TemplateWrongLevel: The template is not of level PLANT.
        PlantStateForbids: The plant is provisioned and its method would change, the external id is taken, the organisation
            is unknown, or the plant would have one coordinate.
        Forbidden: The plant would move to another organisation, and the caller is not a SuperAdmin.
    """
    if changes.organization_id is not UNSET and not org.actor.is_super_admin:
        raise Forbidden("Only a SuperAdmin can move a plant to another organisation.")
    plant = await store.lock(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    if (
        changes.auth_method is not UNSET
        and changes.auth_method is not plant.auth_method
        and plant.lifecycle_status is not Lifecycle.PENDING
    ):
        raise PlantStateForbids("authMethod can be changed only while the plant is PENDING.")
    if changes.template_id is not UNSET:
        template = None if changes.template_id is None else await get_template(db, changes.template_id)
        if template is not None and template.level is not TemplateLevel.PLANT:
            raise TemplateWrongLevel
        former = None if plant.template_id is None else await get_template(db, plant.template_id)
        roles = former_roles(former, template, None)
        await roles_store.keep(db, org, plant_id, None, roles, plant.template_id, template)
        await roles_store.log_energy_after(db, org, plant_id, None, roles)
    columns = {store.OWN_COLUMNS.get(name, name): value for name, value in given(changes).items()}
    if not columns:
        return plant
    moves = changes.organization_id not in (UNSET, plant.organization_id)
    if moves:
        columns.setdefault("external_plant_id", None)  # it is an id at the ESM of the old organisation
    if moves or columns.get("external_plant_id", plant.external_plant_id) != plant.external_plant_id:
        columns |= {**dict.fromkeys(EsmFacts._fields), "linked_at": utc_now()}  # the facts come from the previous link
    try:
        if moves:
            # Commands are locked before the site, which the update deletes: acknowledgements lock them in this order too.
            await end_open_commands(db, org, plant_id, utc_now(), PLANT_MOVED)
        updated = await store.update(db, org, plant_id, columns)
        if updated.organization_id != plant.organization_id:
            await store.move_belongings(db, org, plant_id, updated.organization_id)
            await groups.leave_all(db, org, plant_id)
            await queue_purge(db, plant)
            await defer(db, FOLLOW_MOVES, {"timestamp": 0}, lock=FOLLOW_MOVES, unless_waiting=True)
        await _record_changes(db, org, plant, updated)
        return updated
    except pg.UniqueViolation as error:
        if error.diag.constraint_name == "plant_external_key":
            raise PlantStateForbids(details=["externalPlantId: is linked to another plant of the organisation"]) from None
        raise PlantSerialTaken from None
    except pg.CheckViolation as error:
        if error.diag.constraint_name != "plant_own_coordinates":
            raise
        raise PlantStateForbids(details=[f"latitude: {BOTH_COORDINATES}"]) from None
    except pg.ForeignKeyViolation as error:
        if error.diag.constraint_name == "plant_template_fkey":
            raise TemplateNotFound from None
        raise PlantStateForbids(details=["organizationId: there is no such organisation"]) from None


async def _record_changes(db: Connection, org: OrgScope, before: Plant, after: Plant) -> None:
    """Record what was changed.

    If the plant moves, the events of each organisation do not name the other. Only those of the new one have what was changed
    with the move, without the values before.
    """
    subject = Subject.plant(after.id)
    changed = differences(before, after, _WRITABLE)
    if before.organization_id != after.organization_id:
        for organization_id in (before.organization_id, after.organization_id):
            await record(db, Event.PLANT_MOVED, org.actor.as_actor, subject, organization_id=organization_id)
        pairs = {name: change if isinstance(change, str) else [None, change[1]] for name, change in changed.items()}
        changed = {name: change for name, change in pairs.items() if change != [None, None]}
    if changed:
        actor, owner = org.actor.as_actor, after.organization_id
        await record(db, Event.PLANT_CHANGED, actor, subject, organization_id=owner, details=changed)


async def count_plants(db: Connection, scope: PlatformScope, organization_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the number of plants of each of the organisations that has some."""
    return await store.counts_of_organizations(db, scope, organization_ids)


async def linked_plants(db: Connection, organization_id: UUID, plant_ids: Collection[UUID] | None) -> dict[str, UUID]:
    """Return the organisation's linked plants by their ids at the ESM; only those in `plant_ids`, if given."""
    return await store.linked_plants(db, organization_id, plant_ids)


async def write_esm_facts(db: Connection, organization_id: UUID, plant_id: UUID, external_id: str, facts: EsmFacts) -> None:
    """Update one plant, if it still has this link.

    Use one transaction per plant: another transaction that writes several plants in a different order must not wait for this
    one.
    """
    await store.write_esm_facts(db, organization_id, plant_id, external_id, facts)
