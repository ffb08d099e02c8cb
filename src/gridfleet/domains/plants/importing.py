"""Register many plants at once: all of them, or only the valid ones."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from psycopg import errors as pg

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record_all_in
from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.models import DeviceTemplate, TemplateLevel
from gridfleet.domains.plants import store
from gridfleet.domains.plants.models import PlantToImport
from gridfleet.domains.plants.registry import require_room
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = ["complaints_about", "import_plants"]

_AT_ONCE: Final = 500
"""Plants in a statement. Building its parameters blocks the event loop for 10 to 20 ms."""


async def complaints_about(db: Connection, org: OrgScope, plants: Sequence[PlantToImport]) -> dict[int, list[str]]:
    """Return the complaints about plants that cannot be registered, by `row`. Rows without a complaint are left out.

    A serial number or an external plant id must be free, and occur once in the file. A template must exist and have the level
    PLANT.

    Raises:
        Forbidden: The caller is limited to some plants.
    """
    if org.plant_ids is not None:
        raise Forbidden("A key that is limited to some plants cannot create plants.")
    serials, external_ids = await store.taken(
        db,
        org,
        [plant.serial_number for plant in plants],
        [plant.external_plant_id for plant in plants if plant.external_plant_id is not None],
    )
    templates = await templates_by_id(db, [plant.template_id for plant in plants if plant.template_id is not None])
    rows_of_serial = Counter(plant.serial_number for plant in plants)
    rows_of_external = Counter(plant.external_plant_id for plant in plants)

    def complaints(plant: PlantToImport) -> Iterator[str]:
        if plant.serial_number in serials:
            yield "serialNumber: is taken by another plant of the organisation"
        if rows_of_serial[plant.serial_number] > 1:
            yield "serialNumber: is in several rows"
        if plant.external_plant_id is not None:
            if plant.external_plant_id in external_ids:
                yield "externalPlantId: is linked to another plant of the organisation"
            if rows_of_external[plant.external_plant_id] > 1:
                yield "externalPlantId: is in several rows"
        if plant.template_id is not None:
            yield from _template_complaints(templates.get(plant.template_id))

    return {plant.row: found for plant in plants if (found := list(complaints(plant)))}


def _template_complaints(template: DeviceTemplate | None) -> Iterator[str]:
    if template is None:
        yield "templateId: there is no such template"
    elif template.level is not TemplateLevel.PLANT:
        yield "templateId: must be a template of level PLANT"


async def import_plants(db: Connection, org: OrgScope, plants: Sequence[PlantToImport]) -> dict[int, UUID]:
    """Register plants that have no complaints: PENDING, without credentials.

    Returns:
        The new ids by row. A row is missing if another request took its serial number or external plant id at the same time.

    Raises:
        ValidationFailed: A template was deleted at the same time, or the organisation would have too many plants.
    """
    await require_room(db, org, len(plants))
    created: dict[int, UUID] = {}
    for first in range(0, len(plants), _AT_ONCE):
        some = plants[first : first + _AT_ONCE]
        ids = [new_id() for _ in some]
        try:
            written = await store.insert_many(db, org, ids, some)
        except pg.ForeignKeyViolation:
            raise ValidationFailed(details=["templateId: a template of the file was deleted at the same time"]) from None
        new = [(plant, plant_id) for plant, plant_id in zip(some, ids, strict=True) if plant_id in written]
        subjects = [(Subject.plant(plant_id), _details(plant)) for plant, plant_id in new]
        await record_all_in(db, org, Event.PLANT_CREATED, subjects)
        created |= {plant.row: plant_id for plant, plant_id in new}
    return created


def _details(plant: PlantToImport) -> dict[str, str]:
    return {"name": plant.name, "serialNumber": plant.serial_number, "authMethod": plant.auth_method}
