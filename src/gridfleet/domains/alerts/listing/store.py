"""SQL that reads alerts for users."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.alerts.models import Alert, AlertFilter, AlertStatus, AlertType, Condition, Severity
from gridfleet.domains.alerts.store import FOLLOWED
from gridfleet.domains.plants.chosen_plants import ChosenPlants
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import Paging

_COLUMNS = (
    "a.id, a.plant_id, a.type, a.severity, a.status, a.message, a.acknowledged_at, a.acknowledged_by, a.resolved_at,"
    " a.created_at, a.updated_at, p.name AS plant_name, a.rule_id, a.rule_name, a.metric, a.condition, a.threshold, a.value,"
    " a.unit, a.measured_at"
)
_OURS = f"a.organization_id = %(org)s AND a.{FOLLOWED}"
_WITH_PLANT = "alert a JOIN plant p ON p.id = a.plant_id"
_NEWEST = "ORDER BY a.created_at DESC, a.id DESC"
_GROUPS = (
    # One look-up in the index for each combination, which finds its alerts in the order of the list.
    "unnest(%(statuses)s::text[]) AS s (status) CROSS JOIN unnest(%(severities)s::text[]) AS v (severity) CROSS JOIN LATERAL"
    " (SELECT {wanted} FROM alert a WHERE a.status = s.status AND a.severity = v.severity"
)


def _alert(**row: Any) -> Alert:
    row["type"] = AlertType(row["type"])
    row["severity"] = Severity(row["severity"])
    row["status"] = AlertStatus(row["status"])
    row["condition"] = None if row["condition"] is None else Condition(row["condition"])
    return Alert(acknowledged_by_name=None, **row)


def _visible(org: OrgScope) -> str:
    """Return the condition that a caller's plants add to `_OURS`."""
    return "" if org.plant_ids is None else " AND a.plant_id = ANY(%(plants)s)"


def _chosen(org: OrgScope, which: AlertFilter) -> tuple[str, dict[str, Any], bool]:
    """Return the conditions that a filter adds to `_OURS`, without status and severity, all parameters, and whether the plants
    are few.

    Only conditions that apply: the plan of a prepared statement cannot use an index for an optional condition.
    """
    conditions: list[str] = []
    parameters: dict[str, Any] = {
        "org": org.organization_id,
        "statuses": list(which.statuses or AlertStatus),
        "severities": list(which.severities or Severity),
    }
    plants = ChosenPlants.of(org.plant_ids, which.plant_id)
    conditions.append("a.plant_id = ANY(%(plants)s)" if plants.are_few else plants.condition("a.plant_id"))
    parameters |= plants.parameters
    if which.since is not None:
        conditions.append("a.created_at >= %(since)s")
        parameters["since"] = which.since
    if which.until is not None:
        conditions.append("a.created_at < %(until)s")
        parameters["until"] = which.until
    return "".join(f" AND {condition}" for condition in conditions), parameters, plants.are_few


async def page(db: Connection, org: OrgScope, which: AlertFilter, paging: Paging) -> list[Alert]:
    """Return one page of alerts, newest first."""
    conditions, parameters, few = _chosen(org, which)
    if few:
        found = (
            f"SELECT a.id, a.created_at FROM alert a WHERE {_OURS}{conditions}"
            " AND a.status = ANY(%(statuses)s) AND a.severity = ANY(%(severities)s)"
        )
    elif which.statuses or which.severities:
        wanted = _GROUPS.format(wanted="a.id, a.created_at")
        found = f"SELECT a.id, a.created_at FROM {wanted} AND {_OURS}{conditions} {_NEWEST} LIMIT %(last)s) AS a"
    else:
        found = f"SELECT a.id, a.created_at FROM alert a WHERE {_OURS}{conditions}"
    cursor = db.cursor(row_factory=kwargs_row(_alert))
    await cursor.execute(
        f"WITH wanted AS MATERIALIZED ({found} {_NEWEST} LIMIT %(limit)s OFFSET %(offset)s)"
        f" SELECT {_COLUMNS} FROM {_WITH_PLANT} JOIN wanted ON wanted.id = a.id {_NEWEST}",
        {**parameters, "limit": paging.limit, "offset": paging.offset, "last": paging.offset + paging.limit},
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope, which: AlertFilter) -> int:
    """Return the number of alerts in the list."""
    conditions, parameters, _ = _chosen(org, which)
    if which.statuses or which.severities:
        conditions += " AND a.status = ANY(%(statuses)s) AND a.severity = ANY(%(severities)s)"
    return await fetch_count(db, f"SELECT count(*) FROM alert a WHERE {_OURS}{conditions}", parameters)


async def counts(db: Connection, org: OrgScope, which: AlertFilter) -> dict[tuple[AlertStatus, Severity], int]:
    """Return the number of alerts of each status and severity that has any."""
    conditions, parameters, few = _chosen(org, which)
    if few:
        query = f"SELECT a.status, a.severity, count(*) FROM alert a WHERE {_OURS}{conditions} GROUP BY 1, 2"
    else:
        groups = _GROUPS.format(wanted="count(*) AS number")
        query = f"SELECT s.status, v.severity, a.number FROM {groups} AND {_OURS}{conditions}) AS a WHERE a.number > 0"
    cursor = await db.execute(query.encode(), parameters)
    return {(AlertStatus(status), Severity(severity)): number for status, severity, number in await cursor.fetchall()}


async def find_many(db: Connection, org: OrgScope, alert_ids: Iterable[UUID]) -> list[Alert]:
    """Return those of the alerts that the caller may see, in no particular order."""
    cursor = db.cursor(row_factory=kwargs_row(_alert))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM {_WITH_PLANT} WHERE a.id = ANY(%(ids)s) AND {_OURS}{_visible(org)}",
        {"ids": list(alert_ids), **org.parameters},
    )
    return await cursor.fetchall()


async def open_of_plant(db: Connection, org: OrgScope, plant_id: UUID, most: int) -> list[Alert]:
    """Return up to `most` of the plant's alerts that are not resolved, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_alert))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM {_WITH_PLANT} WHERE a.plant_id = %(plant)s AND a.status <> 'RESOLVED'"
        f" AND {_OURS}{_visible(org)} {_NEWEST} LIMIT %(most)s",
        {"plant": plant_id, "most": most, **org.parameters},
    )
    return await cursor.fetchall()
