"""SQL of the users of a device template. Plants are in the descending order of their ids, which is that of creation."""

from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.plants.chosen_plants import ChosenPlants
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.template_usage.models import TemplateUser
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import CursorPaging


def _user(**row: Any) -> TemplateUser:
    row["status"] = PlantStatus(row["status"])
    return TemplateUser(**row)


def _users(org: OrgScope, template_id: UUID, more: str = "") -> tuple[str, str, dict[str, Any]]:
    """Return what follows SELECT in queries of plants that use the template themselves, and of sub-devices that do."""
    plants = ChosenPlants(org.plant_ids)
    where = "{0}.organization_id = %(org)s AND {0}.template_id = %(template)s AND {1}{2}"
    own = "FROM plant p WHERE " + where.format("p", plants.condition("p.id"), more.format("p.id"))
    devices = "FROM sub_device d WHERE " + where.format("d", plants.condition("d.plant_id"), more.format("d.plant_id"))
    return own, devices, {"org": org.organization_id, "template": template_id, **plants.parameters}


async def count(db: Connection, org: OrgScope, template_id: UUID) -> tuple[int, int]:
    """Return the numbers of plants and of sub-devices that use the template. A plant also counts for its sub-devices."""
    own, devices, parameters = _users(org, template_id)
    cursor = await db.execute(
        f"SELECT count(DISTINCT u.id), coalesce(sum(u.devices), 0)::bigint FROM (SELECT p.id, 0 AS devices {own}"
        f" UNION ALL SELECT d.plant_id, count(*) {devices} GROUP BY d.plant_id) AS u".encode(),
        parameters,
    )
    row = await cursor.fetchone()
    return row or (0, 0)


async def page(db: Connection, org: OrgScope, template_id: UUID, paging: CursorPaging[tuple[UUID]]) -> list[TemplateUser]:
    """Return up to one more than the limit of the plants that use the template, the newest first."""
    own, devices, parameters = _users(org, template_id, " AND {} < %(after)s" if paging.after else "")
    if paging.after is not None:
        parameters["after"] = paging.after[0]
    cursor = db.cursor(row_factory=kwargs_row(_user))
    await cursor.execute(
        f"WITH wanted AS MATERIALIZED ((SELECT p.id {own} ORDER BY p.id DESC LIMIT %(most)s) UNION"
        f" (SELECT DISTINCT d.plant_id {devices} ORDER BY d.plant_id DESC LIMIT %(most)s) ORDER BY id DESC LIMIT %(most)s)"
        " SELECT p.id, p.name, p.serial_number, p.status, p.template_id IS NOT DISTINCT FROM %(template)s AS uses_itself,"
        " (SELECT count(*) FROM sub_device d WHERE d.plant_id = p.id AND d.template_id = %(template)s) AS device_count"
        " FROM wanted JOIN plant p USING (id) WHERE p.organization_id = %(org)s ORDER BY p.id DESC",
        {**parameters, "most": paging.limit + 1},
    )
    return await cursor.fetchall()
