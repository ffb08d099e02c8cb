"""SQL of plants."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.plants.models import (
    AuthMethod,
    EsmFacts,
    Lifecycle,
    OwnPlace,
    Plant,
    PlantStatus,
    PlantToImport,
    PlantType,
)
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, fetch_count, with_raw_json
from gridfleet.kernel.pagination import Paging
from gridfleet.kernel.security.certificates import IssuedCertificate

OWN_COLUMNS: Final = {
    "latitude": "own_latitude",
    "longitude": "own_longitude",
    "tag": "own_tag",
    "time_zone": "time_zone",
}
"""The columns of what users set. Columns without `own_` hold the ESM's values, except the time zone, which no ESM reports."""

_DERIVED: Final = {
    **{name: f"coalesce({OWN_COLUMNS[name]}, {name}) AS {name}" for name in ("latitude", "longitude", "tag")},
    "effective_time_zone": "coalesce(time_zone, (SELECT o.time_zone FROM organization o WHERE o.id = organization_id))"
    " AS effective_time_zone",
}
_PLACE: Final = ", ".join(OWN_COLUMNS[name] for name in OwnPlace._fields)
_COLUMNS = ", ".join(_DERIVED.get(name, name) for name in Plant.__struct_fields__)
_VISIBLE = "organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR id = ANY(%(plants)s))"


def _plant(**row: Any) -> Plant:
    row["type"] = PlantType(row["type"])
    row["auth_method"] = AuthMethod(row["auth_method"])
    row["lifecycle_status"] = Lifecycle(row["lifecycle_status"])
    row["status"] = PlantStatus(row["status"])
    return Plant(**row)


async def insert(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    name: str,
    serial_number: str,
    type: PlantType,
    auth_method: AuthMethod,
    metadata: dict[str, Any],
    place: OwnPlace,
) -> Plant | None:
    """Insert a plant and return it; None if its serial number is taken."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, metadata, {_PLACE})"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT plant_serial_key DO NOTHING RETURNING {_COLUMNS}",
        (plant_id, org.organization_id, name, serial_number, type, auth_method, Jsonb(metadata), *place),
    )
    return await cursor.fetchone()


async def taken(
    db: Connection, org: OrgScope, serial_numbers: Sequence[str], external_plant_ids: Sequence[str]
) -> tuple[set[str], set[str]]:
    """Return the serial numbers and the ESM ids that plants of the organisation already have."""
    cursor = await db.execute(
        "SELECT serial_number, NULL FROM plant WHERE organization_id = %(org)s AND serial_number = ANY(%(serials)s)"
        " UNION ALL"
        " SELECT NULL, external_plant_id FROM plant WHERE organization_id = %(org)s AND external_plant_id = ANY(%(external)s)",
        {"org": org.organization_id, "serials": list(serial_numbers), "external": list(external_plant_ids)},
    )
    rows = await cursor.fetchall()
    return {row[0] for row in rows} - {None}, {row[1] for row in rows} - {None}


async def insert_many(db: Connection, org: OrgScope, plant_ids: Sequence[UUID], plants: Sequence[PlantToImport]) -> set[UUID]:
    """Insert plants, and return the ids of those whose serial number and external plant id were free."""
    columns = ("name", "serial_number", "type", "auth_method", "external_plant_id", "template_id")
    named = f"{', '.join(columns)}, metadata, {_PLACE}"
    cursor = await db.execute(
        f"INSERT INTO plant (organization_id, id, {named})"
        " SELECT %s, n.* FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::uuid[],"
        " %s::jsonb[], %s::float8[], %s::float8[], %s::text[], %s::text[]) AS n ON CONFLICT DO NOTHING RETURNING id",
        (
            org.organization_id,
            list(plant_ids),
            *([getattr(plant, column) for plant in plants] for column in columns),
            [Jsonb(plant.metadata) for plant in plants],
            *([plant.place[number] for plant in plants] for number in range(len(OwnPlace._fields))),
        ),
    )
    return {row[0] for row in await cursor.fetchall()}


async def counts_of_organizations(db: Connection, scope: PlatformScope, organization_ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the number of plants of each of the organisations that has some."""
    cursor = await db.execute(
        "SELECT organization_id, count(*) FROM plant WHERE organization_id = ANY (%s) GROUP BY organization_id",
        (list(organization_ids),),
    )
    return dict(await cursor.fetchall())


async def find(db: Connection, org: OrgScope, plant_id: UUID) -> Plant | None:
    """Return the plant, or None if the caller may not see it."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(f"SELECT {_COLUMNS} FROM plant WHERE id = %(id)s AND {_VISIBLE}", {"id": plant_id, **org.parameters})
    return await cursor.fetchone()


async def visible_among(db: Connection, org: OrgScope, plant_ids: Iterable[UUID]) -> set[UUID]:
    """Return the plants of `plant_ids` that the caller may see."""
    cursor = await db.execute(
        f"SELECT id FROM plant WHERE id = ANY(%(wanted)s) AND {_VISIBLE}", {"wanted": list(plant_ids), **org.parameters}
    )
    return {row[0] for row in await cursor.fetchall()}


async def lock(db: Connection, org: OrgScope, plant_id: UUID) -> Plant | None:
    """Return the plant, locked until the transaction ends, or None if the caller may not see it."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant WHERE id = %(id)s AND {_VISIBLE} FOR UPDATE", {"id": plant_id, **org.parameters}
    )
    return await cursor.fetchone()


async def lock_many(db: Connection, plant_ids: Iterable[UUID]) -> None:
    """Lock plants for writing until the transaction ends, in the order of their ids so that transactions do not deadlock."""
    await db.execute("SELECT FROM plant WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", (list(plant_ids),))


async def hold_many(db: Connection, plant_ids: Iterable[UUID]) -> None:
    """Lock plants against deletion and moves until the transaction ends."""
    await db.execute("SELECT FROM plant WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", (list(plant_ids),))


def _listed(org: OrgScope, auth_method: AuthMethod | None) -> tuple[str, dict[str, Any]]:
    """Return the conditions of a list besides the organisation, and their parameters.

    Only conditions that apply: the plan of a prepared statement cannot use an index for an optional condition.
    """
    parameters = org.parameters
    conditions = "" if org.plant_ids is None else " AND id = ANY(%(plants)s)"
    if auth_method is not None:
        conditions, parameters["method"] = conditions + " AND auth_method = %(method)s", auth_method
    return conditions, parameters


async def page(db: Connection, org: OrgScope, auth_method: AuthMethod | None, paging: Paging, total: int) -> list[Plant]:
    """Return one page of a list with `total` plants, newest first.

    The list is read from its nearer end, because the rows before a page have to be scanned.
    """
    conditions, parameters = _listed(org, auth_method)
    limit = max(0, min(paging.limit, total - paging.offset))
    after = total - paging.offset - limit
    order, offset = ("ASC", max(0, after)) if after < paging.offset else ("DESC", paging.offset)
    cursor = with_raw_json(db.cursor(row_factory=kwargs_row(_plant)))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant JOIN (SELECT id FROM plant WHERE organization_id = %(org)s{conditions}"
        f" ORDER BY created_at {order}, id {order} LIMIT %(limit)s OFFSET %(offset)s) AS wanted USING (id)"
        " ORDER BY created_at DESC, id DESC",
        {**parameters, "limit": limit, "offset": offset},
    )
    return await cursor.fetchall()


async def before(db: Connection, org: OrgScope, last: Plant | None, limit: int) -> list[Plant]:
    """Return up to `limit` plants, newest first, with undecoded metadata: those that follow `last`, or the newest."""
    conditions, parameters = _listed(org, None)
    if last is not None:
        conditions += " AND (created_at, id) < (%(created_at)s, %(id)s)"
        parameters |= {"created_at": last.created_at, "id": last.id}
    cursor = with_raw_json(db.cursor(row_factory=kwargs_row(_plant)))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant WHERE organization_id = %(org)s{conditions} ORDER BY created_at DESC, id DESC"
        " LIMIT %(limit)s",
        {**parameters, "limit": limit},
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope, auth_method: AuthMethod | None) -> int:
    """Return the number of plants in the list."""
    conditions, parameters = _listed(org, auth_method)
    return await fetch_count(db, f"SELECT count(*) FROM plant WHERE organization_id = %(org)s{conditions}", parameters)


async def update(db: Connection, org: OrgScope, plant_id: UUID, changes: dict[str, Any]) -> Plant:
    """Write `changes` (column → value, at least one) and return the plant."""
    values = {name: Jsonb(value) if name == "metadata" else value for name, value in changes.items()}
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"UPDATE plant SET {assignments(values)}, updated_at = now()"
        f" WHERE id = %(id)s AND organization_id = %(org)s RETURNING {_COLUMNS}",
        {**values, "id": plant_id, "org": org.organization_id},
    )
    return (await cursor.fetchall())[0]


async def move_belongings(db: Connection, org: OrgScope, plant_id: UUID, organization_id: UUID) -> None:
    """Move sub-devices and telemetry sources of a plant from `org` to another organisation."""
    await db.execute(
        "WITH devices AS (UPDATE sub_device SET organization_id = %(to)s, updated_at = now()"
        " WHERE plant_id = %(id)s AND organization_id = %(org)s)"
        " UPDATE telemetry_source SET organization_id = %(to)s WHERE plant_id = %(id)s AND organization_id = %(org)s",
        {"id": plant_id, "org": org.organization_id, "to": organization_id},
    )


async def activate(db: Connection, org: OrgScope, plant_id: UUID, certificate: IssuedCertificate | None) -> bool:
    """Make the plant ACTIVE, with its client certificate if it has one. Returns False if it is not PENDING."""
    cursor = await db.execute(
        "UPDATE plant SET lifecycle_status = 'ACTIVE', activated_at = now(), updated_at = now(),"
        " certificate_serial_number = %(serial)s, certificate_fingerprint = %(fingerprint)s,"
        " certificate_expires_at = %(expires)s"
        " WHERE id = %(id)s AND organization_id = %(org)s AND lifecycle_status = 'PENDING'",
        {
            "id": plant_id,
            "org": org.organization_id,
            "serial": certificate and certificate.serial_number,
            "fingerprint": certificate and certificate.fingerprint,
            "expires": certificate and certificate.expires_at,
        },
    )
    return cursor.rowcount == 1


async def set_lifecycle(db: Connection, org: OrgScope, plant_id: UUID, lifecycle: Lifecycle) -> None:
    """Write the lifecycle status. The caller checks whether the change is allowed."""
    await db.execute(
        "UPDATE plant SET lifecycle_status = %s, updated_at = now() WHERE id = %s AND organization_id = %s",
        (lifecycle, plant_id, org.organization_id),
    )


async def delete(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete the plant. Foreign keys delete the rows that belong to it, except telemetry."""
    await db.execute("DELETE FROM plant WHERE id = %s AND organization_id = %s", (plant_id, org.organization_id))


async def identities(db: Connection, plant_ids: Sequence[UUID]) -> list[tuple[UUID, UUID, str, UUID | None, float | None]]:
    """Return (plant, organisation, lifecycle status, template, usual interval in seconds) of those plants that exist."""
    cursor = await db.execute(
        "SELECT id, organization_id, lifecycle_status, template_id, usual_interval_seconds FROM plant WHERE id = ANY(%s)",
        (list(plant_ids),),
    )
    return await cursor.fetchall()


async def linked_plants(db: Connection, organization_id: UUID, plant_ids: Collection[UUID] | None) -> dict[str, UUID]:
    """Return the organisation's linked plants by external id; only those in `plant_ids`, if given."""
    cursor = await db.execute(
        "SELECT external_plant_id, id FROM plant WHERE organization_id = %(org)s AND external_plant_id IS NOT NULL"
        " AND (%(plants)s::uuid[] IS NULL OR id = ANY(%(plants)s))",
        {"org": organization_id, "plants": None if plant_ids is None else list(plant_ids)},
    )
    return {str(external_id): plant_id for external_id, plant_id in await cursor.fetchall()}


_FACTS = sql.SQL(", ").join(map(sql.Identifier, EsmFacts._fields))
_FACT_VALUES = sql.SQL(", ").join(map(sql.Placeholder, EsmFacts._fields))
_WRITE_FACTS = sql.SQL(
    "UPDATE plant SET ({columns}) = ROW ({values}), updated_at = now()"
    " WHERE id = %(id)s AND organization_id = %(org)s AND external_plant_id = %(external)s"
    " AND ({columns}) IS DISTINCT FROM ROW ({values})"
).format(columns=_FACTS, values=_FACT_VALUES)


async def write_esm_facts(db: Connection, organization_id: UUID, plant_id: UUID, external_id: str, facts: EsmFacts) -> None:
    """Write the values that changed, if the plant still has this link."""
    await db.execute(_WRITE_FACTS, {**facts._asdict(), "id": plant_id, "org": organization_id, "external": external_id})
