"""What pages of the console show: system templates, plants with stored values, rules and alerts."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from gridfleet.domains.device_templates.catalogue import seed_system_templates
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from support.builders.alerting import ago
from support.builders.telemetry_records import RecordedPlant, add_plant

T = TypeVar("T")


def add_system_templates(database_url: str) -> None:
    """Create the templates that every deployment has."""

    async def add(database: Database) -> None:
        async with database.transaction() as db:
            await seed_system_templates(db)

    _run(database_url, add)


def add_history(
    database_url: str, slug: str, name: str, device: str, metrics: Sequence[Metric], frames: Mapping[datetime, Sequence[float]]
) -> UUID:
    """Return the id of a new plant in an organisation, with a device that has sent these values."""

    async def add(database: Database) -> UUID:
        async with database.transaction() as db:
            found = await (await db.execute("SELECT id FROM organization WHERE slug = %s", (slug,))).fetchone()
            assert found is not None
        plant = RecordedPlant(database, found[0], await add_plant(database, found[0]))
        async with database.transaction() as db:
            await db.execute("UPDATE plant SET name = %s WHERE id = %s", (name, plant.id))
        await plant.add_device(device)
        await plant.write(device, metrics, frames)
        return plant.id

    return _run(database_url, add)


def add_values(
    database_url: str, plant_id: UUID, device: str, metrics: Sequence[Metric], frames: Mapping[datetime, Sequence[float]]
) -> None:
    """Add a device that has sent these values to a plant."""

    async def add(database: Database) -> None:
        async with database.transaction() as db:
            found = await (await db.execute("SELECT organization_id FROM plant WHERE id = %s", (plant_id,))).fetchone()
            assert found is not None
        plant = RecordedPlant(database, found[0], plant_id)
        await plant.add_device(device)
        await plant.write(device, metrics, frames)

    _run(database_url, add)


def add_rule(database_url: str, slug: str) -> str:
    """Create an alert rule for all plants of an organisation. Returns its id."""
    rule_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO alert_rule (id, organization_id, name, metric, condition, threshold, severity, cooldown_minutes,"
            " enabled, for_seconds, auto_resolve)"
            " SELECT %s, id, 'Low battery', 'soc', 'LT', 10, 'WARNING', 15, true, 0, false FROM organization WHERE slug = %s",
            (rule_id, slug),
        )
    return str(rule_id)


def add_alert(database_url: str, plant_id: UUID | str, message: str) -> str:
    """Add an alert about 5 % of half an hour ago at BAT1 of a plant. Returns its id."""
    alert_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, unit, condition,"
            " threshold, rule_name, measured_at, created_at)"
            " SELECT %s, organization_id, id, 'CRITICAL', 'ACTIVE', %s, 'BAT1.soc', 5, '%%', 'LT', 10, 'Low battery', %s, %s"
            " FROM plant WHERE id = %s",
            (alert_id, message, ago(1800), ago(1795), plant_id),
        )
    return str(alert_id)


def _run(database_url: str, work: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Run a function in an event loop of its own: Playwright's loop runs in the thread of the test."""

    async def run() -> T:
        async with open_database(database_url, name="console", size=2) as database:
            return await work(database)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result(60)
