"""SQL of newest powers. Ingest and jobs write them for all organisations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import class_row

from gridfleet.domains.device_templates.roles import GRID_DEVICE, PV_PREFIX, STANDARD_KEYS
from gridfleet.domains.telemetry.power.models import EnergyState, NewestPower
from gridfleet.kernel.db import Connection

__all__ = ["CAPACITY_KEY", "MOST_OF_PLANT", "PowerRow", "ReadingRow"]

CAPACITY_KEY: Final = "capacity"
"""Key of a battery's usable capacity, which has no role of its own."""

MOST_OF_PLANT: Final = 500
"""The most rows of a plant that are read, so that a plant with thousands of devices does not delay the others."""


class ReadingRow(NamedTuple):
    """The newest values of a source in one layout, of metrics that may have a role, and of its capacity.

    `roles` is the JSON of the roles that its template declares; None without a template. Each list has an entry for each value.
    `are_outside` says which values are outside the limits of their signal. `time_zone` is that of the plant's organisation.
    """

    plant_id: UUID
    time_zone: str
    roles: str | None
    source_id: int
    external_id: str | None
    keys: list[str]
    units: list[str]
    counters: list[bool]
    scalings: list[str | None]
    values: list[float]
    are_outside: list[bool]
    times: list[datetime]


class PowerRow(NamedTuple):
    """What is stored about one plant. `energy` is None before the first count."""

    plant_id: UUID
    newest: NewestPower | None
    energy: EnergyState | None


async def lock(db: Connection, plant_ids: Sequence[UUID]) -> dict[UUID, EnergyState]:
    """Lock the rows of plants until the transaction ends, and return the states of their energy, as far as they exist."""
    cursor = await db.execute(
        "SELECT plant_id, energy_state::text FROM plant_power WHERE plant_id = ANY(%s) ORDER BY plant_id FOR UPDATE",
        (list(plant_ids),),
    )
    return {
        plant_id: msgspec.json.decode(text, type=EnergyState) for plant_id, text in await cursor.fetchall() if text is not None
    }


async def reading_rows(db: Connection, plant_ids: Sequence[UUID]) -> list[ReadingRow]:
    """Return the newest values of plants and their existing sub-devices.

    Of a plant with more than `MOST_OF_PLANT` rows, the newest row of each source is returned before any older one: an edit of a
    template gives each of its devices another layout. The metrics are chosen here, because a plant decides how many others are
    beside them: 200 in each layout, each with a name of its own.
    """
    cursor = db.cursor(row_factory=class_row(ReadingRow), binary=True)
    await cursor.execute(
        "SELECT p.id AS plant_id, o.time_zone, r.roles::text, r.source_id, r.external_id, v.* FROM plant p"
        " JOIN organization o ON o.id = p.organization_id CROSS JOIN LATERAL"
        " (SELECT m.roles, s.id AS source_id, s.external_id, l.metrics, l.units, l.counters, l.scalings, l.minimums,"
        " l.maximums, t.time, t.vals, t.times"
        " FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id LEFT JOIN sub_device d ON d.id = s.sub_device_id"
        " LEFT JOIN device_template m ON m.id = CASE WHEN s.external_id IS NULL THEN p.template_id ELSE d.template_id END"
        " WHERE s.plant_id = p.id AND (s.external_id IS NULL OR s.sub_device_id IS NOT NULL) AND CASE WHEN m.roles <> '{}'"
        " THEN m.roles ?| l.metrics ELSE (s.external_id = %(grid)s OR starts_with(s.external_id, %(pv)s))"
        " AND l.metrics && %(standard)s::text[] END"
        " ORDER BY row_number() OVER (PARTITION BY s.id ORDER BY t.time DESC), s.id LIMIT %(most)s) AS r CROSS JOIN LATERAL"
        " (SELECT array_agg(u.key) AS keys, array_agg(u.unit) AS units, array_agg(u.scaling) AS scalings,"
        " array_agg(r.counters[u.number]) AS counters, array_agg(u.value) AS values,"
        " array_agg((u.value NOT BETWEEN r.minimums[u.number] AND r.maximums[u.number]) IS TRUE) AS are_outside,"
        " array_agg(coalesce(u.at, r.time)) AS times"
        " FROM unnest(r.metrics, r.units, r.scalings, r.vals, r.times)"
        " WITH ORDINALITY AS u (key, unit, scaling, value, at, number)"
        " WHERE u.value IS NOT NULL AND CASE WHEN r.roles <> '{}' THEN r.roles ? u.key OR u.key = %(capacity)s"
        " ELSE u.key = ANY(%(standard)s::text[]) END) AS v"
        " WHERE p.id = ANY(%(plants)s::uuid[]) AND v.keys IS NOT NULL",
        {
            "plants": list(plant_ids),
            "grid": GRID_DEVICE,
            "pv": PV_PREFIX,
            "standard": list(STANDARD_KEYS),
            "capacity": CAPACITY_KEY,
            "most": MOST_OF_PLANT,
        },
    )
    return await cursor.fetchall()


async def save(db: Connection, rows: Sequence[PowerRow]) -> None:
    """Write the rows of plants that exist."""
    newest = [row.newest for row in rows]
    columns: dict[str, tuple[str, list[object]]] = {
        "plant_id": ("uuid", [row.plant_id for row in rows]),
        "measured_at": ("timestamptz", [one and one.measured_at for one in newest]),
        "pv_kw": ("float8", [one and one.pv for one in newest]),
        "battery_kw": ("float8", [one and one.battery for one in newest]),
        "grid_kw": ("float8", [one and one.grid for one in newest]),
        "load_kw": ("float8", [one and one.load for one in newest]),
        "soc": ("float8", [one and one.soc for one in newest]),
        "soh": ("float8", [one and one.soh for one in newest]),
        "capacity_kwh": ("float8", [one and one.capacity for one in newest]),
        "energy_day": ("date", [row.energy and row.energy.day for row in rows]),
        **{
            f"{name}_kwh": ("float8", [row.energy and row.energy.counted[index] for row in rows])
            for index, name in enumerate(_ENERGIES)
        },
        "energy_state": (
            "jsonb",
            [None if row.energy is None else msgspec.json.encode(row.energy).decode() for row in rows],
        ),
    }
    names = ", ".join(columns)
    unnested = ", ".join(f"%({name})s::{'text' if kind == 'jsonb' else kind}[]" for name, (kind, _) in columns.items())
    values = ", ".join(f"n.{name}::{kind}" for name, (kind, _) in columns.items())
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "plant_id")
    await db.execute(
        f"INSERT INTO plant_power ({names}) SELECT {values} FROM unnest({unnested}) AS n ({names})"
        " JOIN plant p ON p.id = n.plant_id ORDER BY n.plant_id"
        f" ON CONFLICT (plant_id) DO UPDATE SET {changed}",
        {name: found for name, (_, found) in columns.items()},
    )


_ENERGIES = ("produced", "imported", "exported", "charged", "discharged")


async def plants_after(db: Connection, plant_id: UUID | None, limit: int) -> list[UUID]:
    """Return up to `limit` plants that have telemetry, by id, after `plant_id` or, if it is None, the first ones."""
    cursor = await db.execute(
        "SELECT id FROM plant p WHERE (%(after)s::uuid IS NULL OR id > %(after)s)"
        " AND EXISTS (SELECT FROM telemetry_source s WHERE s.plant_id = p.id) ORDER BY id LIMIT %(limit)s",
        {"after": plant_id, "limit": limit},
    )
    return [row[0] for row in await cursor.fetchall()]
