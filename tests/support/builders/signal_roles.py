"""Templates for tests whose signals have roles."""

from uuid import UUID

from gridfleet.domains.device_templates.catalogue import create_template
from gridfleet.domains.device_templates.models import DeviceType, Signal, SignalRole, TemplateLevel
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from support.builders.telemetry_records import RecordedPlant

SYSTEM = Actor(ActorType.SYSTEM)


async def add_template(database: Database, level: TemplateLevel = TemplateLevel.SUB_DEVICE, **roles: str) -> UUID:
    """Create a template whose signals have these roles by key."""
    signals = [Signal(key=key, field=key, role=SignalRole(role)) for key, role in roles.items()]
    async with database.transaction() as db:
        template = await create_template(
            db,
            SYSTEM,
            name=str(new_id()),
            type=DeviceType.INVERTER,
            level=level,
            version=1,
            signals=signals,
            actions=[],
        )
    return template.id


async def set_template(plant: RecordedPlant, external_id: str | None, template_id: UUID) -> None:
    """Give a sub-device, or the plant itself without an external id, this template."""
    async with plant.database.transaction() as db:
        if external_id is None:
            await db.execute("UPDATE plant SET template_id = %s WHERE id = %s", (template_id, plant.id))
        else:
            await db.execute(
                "UPDATE sub_device SET template_id = %s WHERE plant_id = %s AND external_id = %s",
                (template_id, plant.id, external_id),
            )
