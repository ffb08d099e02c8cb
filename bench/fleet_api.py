"""`python -m bench.fleet_api`: duration of what a console asks about all plants of an organisation.

The fleet is that of `bench.lists`: one organisation has 20,000 plants with six sub-devices each, others have 10,000 more. Every
plant has a power and has just reported, some have alerts. Requests run one after the other, each without a cached response. A
row of `ROWS` is one kind of request; its 99th percentile is compared with its goal.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

import httpx
import psycopg
import uvloop

from bench.client import Client, percentile
from bench.lists import Ids, fill
from bench.measures import Measure, folder_of, options, report
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, Stack, running_stack

__all__ = ["ROWS", "fill_fleet", "main", "measures_of"]

_INVERTER: Final = "00000000-0000-7000-8000-000000000004"
_SORTS: Final = (
    *("name", "serialNumber", "status", "lastSeenAt", "createdAt", "pv"),
    *("battery", "grid", "load", "soc", "energyToday", "alert"),
)

_FLEET: Final = """
UPDATE plant SET latitude = 36 + random() * 30, longitude = random() * 40 - 10,
    status = (ARRAY['ONLINE', 'ONLINE', 'ONLINE', 'OFFLINE'])[1 + floor(random() * 4)::int], usual_interval_seconds = 10;
INSERT INTO plant_power (plant_id, measured_at, pv_kw, battery_kw, grid_kw, load_kw, soc, soh, capacity_kwh, energy_day,
    produced_kwh, imported_kwh, exported_kwh, charged_kwh, discharged_kwh, energy_state)
SELECT id, now(), random() * 100, random() * 50 - 25, random() * 80 - 40, random() * 30, random() * 100, 98, 60,
    (now() AT TIME ZONE 'UTC')::date, random() * 300, random() * 40, random() * 200, random() * 30, random() * 30,
    '{"day": "2026-01-01", "counters": {"1:energy_produced": [1, 2, 3, 4], "2:energy_imported": [1, 2, 3, 4]}}' FROM plant;
UPDATE plant_power SET measured_at = now() + interval '1 day', soc = random() * 100;
INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at)
SELECT gen_random_uuid(), organization_id, id, (ARRAY['INFO', 'WARNING', 'CRITICAL', 'EMERGENCY'])[1 + n %% 4],
    CASE WHEN n = 1 THEN 'ACTIVE' ELSE 'RESOLVED' END, 'soc is 8 %%', 'soc', 8, now()
FROM plant, generate_series(1, 5) n WHERE n > 1 OR hashtext(id::text) %% 10 = 0;
INSERT INTO fleet_energy (organization_id, hour, energies)
SELECT id, hour, array_fill(1000000::bigint, ARRAY[20]) FROM organization,
    generate_series(date_trunc('hour', now()) - interval '60 days', now(), '1 hour') AS hour WHERE slug = 'bench-0';
ANALYZE;
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of request: a function that returns its next path, and the goal for its 99th percentile in ms, None without."""

    path: Callable[[Ids], str]
    goal: float | None


def _plants(ids: Ids, **filters: str) -> str:
    query = {"sort": random.choice(_SORTS), "order": random.choice(["asc", "desc"]), "limit": "100", **filters}
    return f"/api/v1/fleet/plants?{urlencode(query)}"


def _energy(ids: Ids) -> str:
    now = datetime.now(UTC)
    query = {"from": (now - timedelta(days=31)).isoformat(), "to": now.isoformat(), "bucket": "1 day"}
    return f"/api/v1/fleet/energy?{urlencode(query)}"


ROWS: Final[Mapping[str, Row]] = {
    "fleet summary": Row(lambda ids: "/api/v1/fleet/summary", 30),
    **{f"fleet plants by {sort}": Row(partial(_plants, sort=sort), 50) for sort in _SORTS},
    "fleet plants searched": Row(lambda ids: _plants(ids, q=f"{random.randrange(100)}"), 50),
    "fleet plants of a status": Row(lambda ids: _plants(ids, status=random.choice(["ONLINE", "OFFLINE"])), 50),
    "fleet plants of a lifecycle": Row(lambda ids: _plants(ids, lifecycleStatus="ACTIVE"), 50),
    "fleet plants with alerts": Row(lambda ids: _plants(ids, alert=random.choice(["ANY", "NONE", "CRITICAL"])), 50),
    "fleet plants of a group": Row(lambda ids: _plants(ids, groupId=random.choice(ids.groups)), 50),
    "fleet plants of a template": Row(lambda ids: _plants(ids, templateId=_INVERTER), 50),
    "fleet plants by everything": Row(lambda ids: _plants(ids, q="plant", status="ONLINE", alert="WARNING"), 50),
    "fleet plants, 500 of them": Row(lambda ids: _plants(ids, limit="500"), None),
    "fleet energy of a month": Row(_energy, 100),
    "fleet places": Row(lambda ids: "/api/v1/fleet/places", 150),
}


def main() -> None:
    """Measure, print and write the result `fleet_api`."""
    arguments = options("fleet_api", __doc__)
    arguments.add_argument("--plants", type=int, help="20,000; if quick 2,000")
    arguments.add_argument("--others", type=int, help="plants of other organisations: 10,000; if quick 1,000")
    arguments.add_argument("--requests", type=int, help="of each row: 300; if quick 50")
    chosen = arguments.parse_args()
    plants, others, requests = (2_000, 1_000, 50) if chosen.quick else (20_000, 10_000, 300)
    with running_stack() as stack:
        ids = fill_fleet(stack, chosen.plants or plants, chosen.others or others)
        stack.start_api()
        measures = uvloop.run(_measure(stack, ids, chosen.requests or requests))
    report("fleet_api", measures, folder_of(chosen))


def fill_fleet(stack: Stack, ours: int, theirs: int) -> Ids:
    """Store the fleet of `bench.lists`, whose plants also have places, powers, energies and alerts."""
    ids = fill(stack, ours, theirs)
    with psycopg.connect(stack.database_url, autocommit=True) as db:
        for statement in _FLEET.split(";\n"):
            if statement.strip():
                db.execute(statement.replace("%%", "%").encode())
    return ids


async def _measure(stack: Stack, ids: Ids, requests: int) -> dict[str, Measure]:
    login = httpx.post(
        f"{stack.api_url}/api/v1/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD}, trust_env=False
    )
    token = login.raise_for_status().json()["access_token"]
    times: dict[str, list[float]] = {name: [] for name in ROWS}
    async with Client(stack, token, ids.organization) as client:
        for row in ROWS.values():
            await client.get(row.path(ids))
        for _ in range(requests):
            for name, row in ROWS.items():
                await client.call("DELETE", f"/api/v1/admin/cache/flush/{ids.organization}")
                times[name].append(await client.time(row.path(ids)))
    return measures_of(times)


def measures_of(times: Mapping[str, Sequence[float]]) -> dict[str, Measure]:
    """Return median and 99th percentile of each row in ms."""
    measures = {}
    for name, seconds in times.items():
        key = name.lower().replace(",", "").replace(" ", "_")
        measures[f"{key}_p50"] = Measure(percentile(seconds, 0.5) * 1e3, "ms", None, "lower")
        measures[f"{key}_p99"] = Measure(percentile(seconds, 0.99) * 1e3, "ms", ROWS[name].goal, "lower")
    return measures


if __name__ == "__main__":
    main()
