"""SQL of plants that are linked to an ESM."""

from collections.abc import Collection
from uuid import UUID

from psycopg import sql

from gridfleet.domains.plants.esm_link.models import EsmFacts
from gridfleet.kernel.db import Connection


async def linked(db: Connection, organization_id: UUID, plant_ids: Collection[UUID] | None) -> dict[str, UUID]:
    """Return the organisation's linked plants by external id; only those in `plant_ids`, if given."""
    cursor = await db.execute(
        "SELECT external_plant_id, id FROM plant WHERE organization_id = %(org)s AND external_plant_id IS NOT NULL"
        " AND (%(plants)s::uuid[] IS NULL OR id = ANY(%(plants)s))",
        {"org": organization_id, "plants": None if plant_ids is None else list(plant_ids)},
    )
    return {str(external_id): plant_id for external_id, plant_id in await cursor.fetchall()}


_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, EsmFacts._fields))
_VALUES = sql.SQL(", ").join(map(sql.Placeholder, EsmFacts._fields))
_WRITE = sql.SQL(
    "UPDATE plant SET ({columns}) = ROW ({values}), updated_at = now()"
    " WHERE id = %(id)s AND organization_id = %(org)s AND external_plant_id = %(external)s"
    " AND ({columns}) IS DISTINCT FROM ROW ({values})"
).format(columns=_COLUMNS, values=_VALUES)


async def write(db: Connection, organization_id: UUID, plant_id: UUID, external_id: str, facts: EsmFacts) -> None:
    """Write the values that changed, if the plant still has this link."""
    await db.execute(_WRITE, {**facts._asdict(), "id": plant_id, "org": organization_id, "external": external_id})
