"""SQL of the lists of refused messages and unregistered devices over all plants.

A refused message belongs to the organisation that its plant had when it arrived. It is listed while the plant stays there.
Devices are in the order in which they were first seen, which does not change.
"""

from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.plants.chosen_plants import ChosenPlants
from gridfleet.domains.plants.refused_messages.models import (
    PlantRefusedMessage,
    PlantUnregisteredDevice,
    RefusedFilter,
    RefusedMessage,
)
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import CursorPaging, TimeKey
from gridfleet.protocol.envelope import RefusalReason

_OURS = "r.organization_id = %(org)s AND EXISTS (SELECT FROM plant p WHERE p.id = r.plant_id AND p.organization_id = %(org)s)"
_NEWEST = "ORDER BY received_at DESC, id DESC LIMIT %(most)s"
_MESSAGE = ", ".join(f"r.{name}" for name in RefusedMessage.__struct_fields__)
_FIRST_SEEN = "ORDER BY first_seen_at DESC, plant_id DESC, external_id DESC LIMIT %(most)s"
_UNREGISTERED = "NOT EXISTS (SELECT FROM sub_device d WHERE d.plant_id = r.plant_id AND d.external_id = r.external_id)"


def _message(**row: Any) -> PlantRefusedMessage:
    row["reason"] = RefusalReason(row["reason"])
    return PlantRefusedMessage(**row)


def _conditions(org: OrgScope, which: RefusedFilter, time: str) -> tuple[list[str], dict[str, Any], ChosenPlants]:
    """Return the conditions of a filter beside `_OURS`, all parameters, and the plants. A few plants have no condition."""
    conditions, parameters = list[str](), dict[str, Any](org=org.organization_id)
    if which.since is not None:
        conditions.append(f"r.{time} >= %(since)s")
        parameters["since"] = which.since
    if which.until is not None:
        conditions.append(f"r.{time} < %(until)s")
        parameters["until"] = which.until
    plants = ChosenPlants.of(org.plant_ids, which.plant_id)
    if not plants.are_few:
        conditions.append(plants.condition("r.plant_id"))
    return conditions, {**parameters, **plants.parameters}, plants


def _messages(org: OrgScope, which: RefusedFilter, after: TimeKey | None, most: int) -> tuple[str, dict[str, Any]]:
    """Return a query of the newest `most` messages, and perhaps some older ones, and its parameters."""
    conditions, parameters, plants = _conditions(org, which, "received_at")
    if plants.are_few:
        source = "unnest(%(plants)s::uuid[]) AS w (plant_id)"
        conditions.append("r.plant_id = w.plant_id AND r.reason = ANY(%(reasons)s)")
    else:
        # One look-up in the index for each reason, which has its messages in the order of the list.
        source = "unnest(%(reasons)s::text[]) AS w (reason)"
        conditions.append("r.reason = w.reason")
    if after is not None:
        conditions.append("(r.received_at, r.id) < (%(after_time)s, %(after_id)s)")
        parameters["after_time"], parameters["after_id"] = after
    query = (
        f"SELECT found.id, found.received_at FROM {source} CROSS JOIN LATERAL (SELECT r.id, r.received_at"
        f" FROM refused_message r WHERE {_OURS} AND {' AND '.join(conditions)} {_NEWEST}) AS found"
    )
    return query, {**parameters, "most": most, "reasons": list(which.reasons or RefusalReason)}


async def page_messages(
    db: Connection, org: OrgScope, which: RefusedFilter, paging: CursorPaging[TimeKey]
) -> list[PlantRefusedMessage]:
    """Return up to one more than the limit of the refused messages of the organisation's plants, newest first."""
    query, parameters = _messages(org, which, paging.after, paging.limit + 1)
    cursor = db.cursor(row_factory=kwargs_row(_message))
    await cursor.execute(
        f"WITH wanted AS MATERIALIZED ({query} {_NEWEST}) SELECT r.plant_id, p.name AS plant_name, {_MESSAGE}"
        " FROM wanted JOIN refused_message r USING (id) JOIN plant p ON p.id = r.plant_id AND p.organization_id = %(org)s"
        " ORDER BY r.received_at DESC, r.id DESC",
        parameters,
    )
    return await cursor.fetchall()


async def count_messages(db: Connection, org: OrgScope, which: RefusedFilter, most: int) -> int:
    """Return the number of refused messages of the organisation's plants, at most `most`."""
    query, parameters = _messages(org, which, None, most)
    return await fetch_count(db, f"SELECT count(*) FROM ({query} LIMIT %(most)s) AS counted", parameters)


def _devices(org: OrgScope, which: RefusedFilter, after: tuple[Any, UUID, str] | None, most: int) -> tuple[str, dict[str, Any]]:
    """Return a query of the `most` devices that were discovered most recently, and perhaps some others, and its parameters."""
    conditions, parameters, plants = _conditions(org, which, "first_seen_at")
    if after is not None:
        conditions.append("(r.first_seen_at, r.plant_id, r.external_id) < (%(after_time)s, %(after_plant)s, %(after_device)s)")
        parameters["after_time"], parameters["after_plant"], parameters["after_device"] = after
    parameters["most"] = most
    rows = f"SELECT r.* FROM unregistered_device r WHERE {_OURS} AND {' AND '.join((*conditions, _UNREGISTERED))}"
    if plants.are_few:
        one = f"{rows} AND r.plant_id = w.plant_id {_FIRST_SEEN}"
        return f"SELECT found.* FROM unnest(%(plants)s::uuid[]) AS w (plant_id) CROSS JOIN LATERAL ({one}) AS found", parameters
    return rows, parameters


async def page_devices(
    db: Connection, org: OrgScope, which: RefusedFilter, paging: CursorPaging[tuple[Any, UUID, str]]
) -> list[PlantUnregisteredDevice]:
    """Return up to one more than the limit of the organisation's unregistered devices, most recently discovered first."""
    query, parameters = _devices(org, which, paging.after, paging.limit + 1)
    cursor = db.cursor(row_factory=class_row(PlantUnregisteredDevice))
    await cursor.execute(
        f"WITH wanted AS MATERIALIZED ({query} {_FIRST_SEEN})"
        " SELECT r.plant_id, p.name AS plant_name, r.external_id, r.first_seen_at, r.last_seen_at, r.count, r.fields"
        " FROM wanted r JOIN plant p ON p.id = r.plant_id AND p.organization_id = %(org)s"
        " ORDER BY r.first_seen_at DESC, r.plant_id DESC, r.external_id DESC",
        parameters,
    )
    return await cursor.fetchall()


async def count_devices(db: Connection, org: OrgScope, which: RefusedFilter, most: int) -> int:
    """Return the number of unregistered devices of the organisation's plants, at most `most`."""
    query, parameters = _devices(org, which, None, most)
    return await fetch_count(db, f"SELECT count(*) FROM ({query} LIMIT %(most)s) AS counted", parameters)
