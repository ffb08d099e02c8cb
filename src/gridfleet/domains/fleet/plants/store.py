"""SQL of the plants of a fleet."""

from datetime import date
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.fleet.plants.models import (
    AlertCondition,
    FleetEnergy,
    FleetFilter,
    FleetPaging,
    FleetPlant,
    FleetPower,
    FleetSort,
    SortOrder,
)
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["FRESH", "SEVERITIES", "TODAY", "TYPES"]

SEVERITIES: Final = (Severity.INFO, Severity.WARNING, Severity.CRITICAL, Severity.EMERGENCY)
"""From low to high."""
_RANK: Final = f"array_position(ARRAY[{', '.join(repr(one.value) for one in SEVERITIES)}], severity)"

FRESH: Final = (
    "(p.status = 'ONLINE' AND (w.measured_at > (SELECT now() - interval '15 minutes')"
    " OR w.measured_at > now() - 3 * coalesce(p.usual_interval_seconds, 0) * interval '1 second'))"
)
"""Whether the power `w` of the plant `p` is fresh. PostgreSQL computes the time in the subquery once for all plants."""
TODAY: Final = "%(today)s::date"
"""The current day, in the time zone of the organisation."""

_ALERTS: Final = (
    f"SELECT plant_id, count(*) AS number, max({_RANK}) AS worst FROM alert"
    " WHERE organization_id = %(org)s AND status <> 'RESOLVED'"
)
_REFUSED: Final = (
    "FROM refused_message r WHERE r.plant_id = p.id AND r.organization_id = %(org)s"
    " AND r.received_at > now() - interval '1 day'"
)
"""Messages of the plant `p` that were refused in the last 24 hours."""
_POWER: Final = " LEFT JOIN plant_power w ON w.plant_id = p.id"
_ALERTED: Final = f" LEFT JOIN ({_ALERTS} GROUP BY plant_id) AS a ON a.plant_id = p.id"

_KEYS: Final[dict[FleetSort, tuple[str, str]]] = {
    FleetSort.NAME: ("lower(p.name)", "text"),
    FleetSort.SERIAL_NUMBER: ("lower(p.serial_number)", "text"),
    FleetSort.STATUS: ("p.status", "text"),
    FleetSort.LAST_SEEN_AT: ("p.last_seen_at", "timestamptz"),
    FleetSort.CREATED_AT: ("p.created_at", "timestamptz"),
    FleetSort.PV: (f"CASE WHEN {FRESH} THEN w.pv_kw END", "float8"),
    FleetSort.BATTERY: (f"CASE WHEN {FRESH} THEN w.battery_kw END", "float8"),
    FleetSort.GRID: (f"CASE WHEN {FRESH} THEN w.grid_kw END", "float8"),
    FleetSort.LOAD: (f"CASE WHEN {FRESH} THEN w.load_kw END", "float8"),
    FleetSort.SOC: (f"CASE WHEN {FRESH} THEN w.soc END", "float8"),
    FleetSort.ENERGY_TODAY: (f"CASE WHEN w.energy_day = {TODAY} THEN w.produced_kwh END", "float8"),
    FleetSort.ALERT: ("a.worst", "float8"),
}
"""The expression of each sort, and its type."""
TYPES: Final = {sort: (int, float) if kind == "float8" else (str,) for sort, (_, kind) in _KEYS.items()}
"""The types of a position's value."""


async def page(
    db: Connection, org: OrgScope, which: FleetFilter, paging: FleetPaging, today: date
) -> tuple[int, list[tuple[Any, FleetPlant]]]:
    """Return the number of plants that match, and a page: up to one more than the limit, each with the value of its sort.

    The list is counted and sorted with few columns; what the rows show is read for the page alone. `ctid` prevents index-only
    scans: the planner expects that they need no rows, but each message updates its plant, so they read them one by one.
    """
    key, kind = _KEYS[paging.sort]
    key = f'({key})::{kind} COLLATE "C"' if kind == "text" else f"({key})::{kind}"
    conditions, parameters = _conditions(org, which)
    joins = _POWER * ("w." in key) + _ALERTED * ("a." in key or which.alert is not None)
    order = f"key {'DESC' if paging.order is SortOrder.DESC else 'ASC'} NULLS LAST"
    after = _after(kind, paging, parameters)
    shown = "i.key::text" if kind == "timestamptz" else "i.key"
    cursor = await db.execute(
        f"WITH matching AS MATERIALIZED (SELECT p.id, p.ctid, {key} AS key FROM plant p{joins}"
        f" WHERE p.organization_id = %(org)s{conditions})"
        f" SELECT t.total, {shown}, p.id, p.name, p.serial_number, p.status, p.lifecycle_status, p.template_id, p.last_seen_at,"
        f" p.created_at, w.pv_kw, w.battery_kw, w.grid_kw, w.load_kw, w.measured_at, coalesce({FRESH}, false), w.soc,"
        f" w.energy_day = {TODAY}, w.produced_kwh, w.imported_kwh, w.exported_kwh, w.charged_kwh,"
        " w.discharged_kwh, a.number, a.worst,"
        f" (SELECT r.received_at {_REFUSED} ORDER BY r.received_at DESC LIMIT 1)"
        " FROM (SELECT count(*) AS total FROM matching) AS t"
        f" LEFT JOIN (SELECT * FROM matching{after} ORDER BY {order}, id LIMIT %(limit)s) AS i ON true"
        f" LEFT JOIN plant p ON p.id = i.id{_POWER}"
        f" LEFT JOIN LATERAL ({_ALERTS} AND plant_id = p.id GROUP BY plant_id) AS a ON true"
        f" ORDER BY i.{order}, p.id",
        {**parameters, "limit": paging.limit + 1, "today": today},
        prepare=False,  # planned for this organisation's number of plants
    )
    rows = await cursor.fetchall()
    return rows[0][0], [(row[1], _plant(*row[2:])) for row in rows if row[2] is not None]


def _conditions(org: OrgScope, which: FleetFilter) -> tuple[str, dict[str, Any]]:
    """Return the conditions that apply beside the organisation, and their parameters.

    The plan of a prepared statement cannot use an index for an optional condition.
    """
    conditions: list[str] = []
    parameters: dict[str, Any] = {"org": org.organization_id}

    def require(condition: str, name: str, value: object) -> None:
        conditions.append(condition)
        parameters[name] = value

    if org.plant_ids is not None:
        require("p.id = ANY(%(plants)s)", "plants", list(org.plant_ids))
    if which.plant_id is not None:
        require("p.id = %(plant)s", "plant", which.plant_id)
    if which.search:
        found = "strpos(lower({column}), lower(%(search)s)) > 0"
        columns = (found.format(column=f"p.{column}") for column in ("name", "serial_number"))
        require(f"({' OR '.join(columns)})", "search", which.search)
    if which.statuses:
        require("p.status = ANY(%(statuses)s)", "statuses", list(which.statuses))
    if which.lifecycles:
        require("p.lifecycle_status = ANY(%(lifecycles)s)", "lifecycles", list(which.lifecycles))
    if which.group_id is not None:
        require(
            "p.id IN (SELECT m.plant_id FROM plant_group_member m JOIN plant_group g ON g.id = m.plant_group_id"
            " WHERE g.id = %(group)s AND g.organization_id = %(org)s)",
            "group",
            which.group_id,
        )
    if which.template_id is not None:
        require(
            "(p.template_id = %(template)s OR p.id IN (SELECT d.plant_id FROM sub_device d"
            " WHERE d.template_id = %(template)s AND d.organization_id = %(org)s))",
            "template",
            which.template_id,
        )
    if which.alert is AlertCondition.NONE:
        conditions.append("a.plant_id IS NULL")
    elif which.alert is AlertCondition.ANY:
        conditions.append("a.plant_id IS NOT NULL")
    elif which.alert is not None:
        require("a.worst >= %(rank)s", "rank", SEVERITIES.index(Severity(which.alert)) + 1)
    if which.refused is not None:
        conditions.append(f"{'' if which.refused else 'NOT '}EXISTS (SELECT {_REFUSED})")
    return "".join(f" AND {condition}" for condition in conditions), parameters


def _after(kind: str, paging: FleetPaging, parameters: dict[str, Any]) -> str:
    """Return the condition for rows after the position, and add its parameters. Empty for the first page."""
    if paging.after is None:
        return ""
    parameters |= {"after": paging.after.value, "after_id": paging.after.id}
    if paging.after.value is None:
        return " WHERE key IS NULL AND id > %(after_id)s"
    further = "<" if paging.order is SortOrder.DESC else ">"
    value = f"%(after)s::{kind}"
    return f" WHERE key {further} {value} OR (key = {value} AND id > %(after_id)s) OR key IS NULL"


def _plant(
    id: UUID,
    name: str,
    serial_number: str,
    status: str,
    lifecycle_status: str,
    template_id: UUID | None,
    last_seen_at: Any,
    created_at: Any,
    pv_kw: float | None,
    battery_kw: float | None,
    grid_kw: float | None,
    load_kw: float | None,
    measured_at: Any,
    fresh: bool,
    soc: float | None,
    is_of_today: bool | None,
    produced: float,
    imported: float,
    exported: float,
    charged: float,
    discharged: float,
    open_alerts: int | None,
    worst: int | None,
    last_refused_at: Any,
) -> FleetPlant:
    return FleetPlant(
        id,
        name,
        serial_number,
        PlantStatus(status),
        Lifecycle(lifecycle_status),
        template_id,
        last_seen_at,
        created_at,
        None if measured_at is None else FleetPower(pv_kw, battery_kw, grid_kw, load_kw, measured_at, fresh),
        soc,
        FleetEnergy(*(round(one, 3) for one in (produced, imported, exported, charged, discharged))) if is_of_today else None,
        open_alerts or 0,
        None if worst is None else SEVERITIES[worst - 1],
        last_refused_at,
    )
