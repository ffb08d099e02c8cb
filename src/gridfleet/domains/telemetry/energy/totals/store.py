"""SQL of the energies of each organisation and hour, and of sums of energies over time.

A row of `fleet_energy` has the kinds of energy of a plant, and then the `METERED` kinds of the plants whose meter at the grid
measured in the hour: the energy that they supplied (produced + discharged - charged), and the energy that they produced. An
earlier release wrote rows without the `METERED` kinds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.telemetry.energy.store import KINDS, array
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

METERED: Final = 2
"""Further kinds of energy in a row of an organisation."""
_PLANT_VALUES: Final = 4 * KINDS
_VALUES: Final = 4 * (KINDS + METERED)

# Positions in `energies`: produced 1 to 4, imported 5 to 8, exported 9 to 12, charged 13 to 16, discharged 17 to 20.
_OWN: Final = ", ".join(
    f"coalesce(e.energies[{n}], 0) + coalesce(e.energies[{n + 16}], 0) - coalesce(e.energies[{n + 12}], 0)" for n in range(1, 5)
)
_IF_METERED: Final = f"e.energies || ARRAY[{_OWN}] || e.energies[1:4]"
_OF_PLANT: Final = (
    f"CASE WHEN num_nonnulls(VARIADIC e.energies[5:12]) > 0 THEN {_IF_METERED}"
    f" ELSE e.energies || array_fill(NULL::bigint, ARRAY[{4 * METERED}]) END"
)
"""What a row `e` of `plant_energy` adds to its organisation."""
_SUM: Final = ", ".join(
    f"coalesce(t.energies[{n}] + excluded.energies[{n}], t.energies[{n}], excluded.energies[{n}])"
    for n in range(1, _VALUES + 1)
)
_DIFFERENCE: Final = ", ".join(f"t.energies[{n}] - coalesce(e.energies[{n}], 0)" for n in range(1, _VALUES + 1))
_CHANGED: Final = "(ARRAY[{}])[:cardinality(t.energies)]"
"""A row without the metered kinds stays without them, because these would lack its other plants."""


def of_plant_hour(energies: Sequence[int | None]) -> list[int | None]:
    """Return what the energies of a plant's hour add to its organisation."""
    if all(value is None for value in energies[4:12]):
        return [*energies, *[None] * (4 * METERED)]
    own = [(energies[n] or 0) + (energies[n + 16] or 0) - (energies[n + 12] or 0) for n in range(4)]
    return [*energies, *own, *energies[:4]]


async def add_to_totals(db: Connection, changes: Mapping[tuple[UUID, datetime], Sequence[int | None]]) -> None:
    """Add changes in mWh to the totals of (organisation, hour).

    Each sequence has the positions of `fleet_energy.energies`; None changes nothing. Changes of deleted organisations are
    ignored.
    """
    ordered = sorted(changes)
    await db.execute(
        "INSERT INTO fleet_energy AS t (organization_id, hour, energies) SELECT id, hour, energies::bigint[]"
        " FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[]) AS n (id, hour, energies) JOIN organization USING (id)"
        f" ON CONFLICT (organization_id, hour) DO UPDATE SET energies = {_CHANGED.format(_SUM)}",
        ([one[0] for one in ordered], [one[1] for one in ordered], [array(changes[one]) for one in ordered]),
    )


async def misplaced(db: Connection, limit: int) -> list[UUID]:
    """Return plants that were deleted or moved while totals of an organisation contain them.

    The order is random: one of each of these organisations, then a second of each, and so on.
    """
    cursor = await db.execute(
        "SELECT a.plant_id FROM energy_account a LEFT JOIN plant p ON p.id = a.plant_id"
        " WHERE p.organization_id IS DISTINCT FROM a.organization_id"
        " ORDER BY row_number() OVER (PARTITION BY a.organization_id ORDER BY random()), random() LIMIT %s",
        (limit,),
    )
    return [row[0] for row in await cursor.fetchall()]


async def owner_of(db: Connection, plant_id: UUID) -> UUID | None:
    """Hold a plant until the transaction ends, and return its organisation; None if the plant was deleted."""
    cursor = await db.execute("SELECT organization_id FROM plant WHERE id = %s FOR KEY SHARE", (plant_id,))
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def leave_totals(db: Connection, plant_id: UUID) -> None:
    """Subtract a plant from the totals of the organisation of its account."""
    await db.execute(
        f"UPDATE fleet_energy t SET energies = {_CHANGED.format(_DIFFERENCE)} FROM (SELECT a.organization_id, e.hour,"
        f" {_OF_PLANT} AS energies FROM plant_energy e JOIN energy_account a USING (plant_id) WHERE e.plant_id = %s) AS e"
        " WHERE t.organization_id = e.organization_id AND t.hour = e.hour",
        (plant_id,),
    )


async def enter_totals(db: Connection, plant_id: UUID, organization_id: UUID) -> None:
    """Add a plant to the totals of an organisation, and record the organisation in the plant's account."""
    await db.execute(
        "WITH account AS (UPDATE energy_account SET organization_id = %(org)s WHERE plant_id = %(plant)s)"
        f" INSERT INTO fleet_energy AS t (organization_id, hour, energies) SELECT %(org)s, e.hour, {_OF_PLANT}"
        " FROM plant_energy e WHERE e.plant_id = %(plant)s"
        f" ON CONFLICT (organization_id, hour) DO UPDATE SET energies = {_CHANGED.format(_SUM)}",
        {"org": organization_id, "plant": plant_id},
    )


async def complete(db: Connection, hours: int) -> int:
    """Add the metered kinds to up to `hours` rows that lack them, the latest hours first. Returns the number of these rows."""
    cursor = await db.execute(
        "WITH lacking AS (SELECT organization_id, hour FROM fleet_energy"
        f" WHERE cardinality(energies) = {_PLANT_VALUES} ORDER BY organization_id DESC, hour DESC LIMIT %s),"
        " found AS (SELECT l.organization_id, l.hour, "
        + ", ".join(f"sum(e.energies[{n}])::bigint AS v{n}" for n in range(_PLANT_VALUES + 1, _VALUES + 1))
        + " FROM lacking l LEFT JOIN energy_account a USING (organization_id)"
        f" LEFT JOIN LATERAL (SELECT {_OF_PLANT} AS energies FROM plant_energy e"
        " WHERE e.plant_id = a.plant_id AND e.hour = l.hour) AS e ON true GROUP BY l.organization_id, l.hour)"
        " UPDATE fleet_energy t SET energies = t.energies || ARRAY["
        + ", ".join(f"f.v{n}" for n in range(_PLANT_VALUES + 1, _VALUES + 1))
        + "] FROM found f WHERE t.organization_id = f.organization_id AND t.hour = f.hour",
        (hours,),
        prepare=False,
    )
    return cursor.rowcount


_QUARTER: Final = "e.hour + q.number * interval '15 minutes'"
_SUMS: Final = f"width_bucket({_QUARTER}, %(edges)s::timestamptz[]), " + ", ".join(
    f"sum(e.energies[{4 * kind + 1} + q.number])" for kind in range(KINDS + METERED)
)
_BUCKETS: Final = (
    " CROSS JOIN generate_series(0, 3) AS q (number)"
    f" WHERE {_QUARTER} >= %(start)s::timestamptz AND {_QUARTER} < %(end)s::timestamptz GROUP BY 1"
)
_OF_HOUR: Final = ", ".join(f"sum(e.energies[{number}])" for number in range(1, _VALUES + 1))


async def of_plants(
    db: Connection, org: OrgScope, plant_ids: Sequence[UUID], edges: Sequence[datetime], without: Iterable[datetime]
) -> list[tuple[Any, ...]]:
    """Return (number of the bucket from 1, one sum in mWh for each kind of energy of totals) of plants.

    Sums are None where nothing was measured. Buckets without a kept hour are left out.

    Args:
        edges: The start of each bucket, ascending, and the end of the last one.
        without: Hours that are not added.
    """
    cursor = await db.execute(
        # Hours are summed first: only the sums are divided into quarters, and they are no more than the hours of one plant.
        f"SELECT {_SUMS} FROM (SELECT e.hour, ARRAY[{_OF_HOUR}] AS energies FROM (SELECT e.hour, {_OF_PLANT} AS energies"
        " FROM plant_energy e JOIN plant p ON p.id = e.plant_id"
        " WHERE e.plant_id = ANY(%(plants)s) AND p.organization_id = %(org)s"
        " AND e.hour > %(start)s::timestamptz - interval '1 hour' AND e.hour < %(end)s::timestamptz"
        f" AND e.hour <> ALL(%(without)s::timestamptz[]) OFFSET 0) AS e GROUP BY e.hour) AS e{_BUCKETS}",
        {**_range(org, edges), "plants": list(plant_ids), "without": list(without)},
        prepare=False,
    )
    return await cursor.fetchall()


async def of_fleet(db: Connection, org: OrgScope, edges: Sequence[datetime]) -> list[tuple[Any, ...]]:
    """Return (number of the bucket from 1, one sum in mWh for each kind of energy of totals) of the organisation's plants.

    In a row that lacks the metered kinds, all plants count as metered.
    """
    cursor = await db.execute(
        f"SELECT {_SUMS} FROM (SELECT e.hour, CASE cardinality(e.energies) WHEN {_PLANT_VALUES} THEN {_IF_METERED}"
        " ELSE e.energies END AS energies FROM fleet_energy e WHERE e.organization_id = %(org)s"
        f" AND e.hour > %(start)s::timestamptz - interval '1 hour' AND e.hour < %(end)s::timestamptz OFFSET 0) AS e{_BUCKETS}",
        _range(org, edges),
        prepare=False,
    )
    return await cursor.fetchall()


def _range(org: OrgScope, edges: Sequence[datetime]) -> dict[str, Any]:
    return {"org": org.organization_id, "edges": list(edges), "start": edges[0], "end": edges[-1]}
