"""`python -m bench.lists`: duration of every list of the registry with a large fleet, compared with a route that does nothing.

One organisation has 20,000 plants with six sub-devices each; other organisations have 10,000 more plants. Every plant has just
reported, so its row has moved since the last vacuum. Requests run one after the other, with 20 records per page.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import httpx
import psycopg
import uvloop

from bench.client import Client, percentile
from bench.measures import Measure, folder_of, options, report
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, Stack, running_stack

__all__ = ["UNPAGED", "Ids", "fill", "main", "measures_of"]

PAGE_GOAL: Final = 15.0
UNPAGED: Final = "available plants of a group"
"""The list without pages: it has all plants."""
UNPAGED_GOAL: Final = 60.0
_EMPTY_ROUTE: Final = "/api/v1/health/live"
_INVERTER: Final = "00000000-0000-7000-8000-000000000004"

_ORGANISATIONS: Final = """
INSERT INTO organization (id, name, slug) SELECT gen_random_uuid(), 'Bench ' || n, 'bench-' || n FROM generate_series(0, 20) n;
CREATE TEMPORARY TABLE org AS SELECT id, substr(slug, 7)::int AS number FROM organization WHERE slug LIKE 'bench-%';
"""
_PLANTS: Final = """
INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status, status, activated_at,
    last_seen_at, certificate_serial_number, certificate_fingerprint, certificate_expires_at, metadata, created_at)
SELECT gen_random_uuid(), org.id, 'Plant ' || n, 'SN-' || n, 'GATEWAY', (ARRAY['MTLS', 'TOKEN', 'PASSWORD'])[n %% 3 + 1],
    'ACTIVE', 'ONLINE', now(), now(), CASE WHEN n %% 3 = 0 THEN md5(n::text) END, CASE WHEN n %% 3 = 0 THEN md5(n::text) END,
    CASE WHEN n %% 3 = 0 THEN now() + make_interval(days => n %% 400 - 10) END, '{"site": "roof", "tariff": 3}',
    now() - make_interval(secs => random() * 1e7)
FROM generate_series(1, %(ours)s + %(theirs)s) n
JOIN org ON org.number = CASE WHEN n <= %(ours)s THEN 0 ELSE n %% 20 + 1 END;
"""
_DEVICES: Final = """
INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, serial_number, type, status, template_id)
SELECT gen_random_uuid(), p.organization_id, p.id, 'DEV' || d, 'Device ' || d || ' of ' || p.name, p.serial_number || '-' || d,
    (ARRAY['INVERTER', 'METER', 'BATTERY', 'CABINET'])[d %% 4 + 1], 'ONLINE',
    CASE WHEN d %% 4 = 0 THEN %(template)s::uuid END
FROM plant p, generate_series(1, 6) d;
INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)
SELECT gen_random_uuid(), id, now(), 'v1/plants/x/telemetry', 'MALFORMED', 'is not JSON', 12
FROM (SELECT id FROM plant ORDER BY id LIMIT 200) p, generate_series(1, 1000);
"""
_GROUPS: Final = """
INSERT INTO plant_group (id, organization_id, name) SELECT gen_random_uuid(), org.id, 'Group ' || g
FROM org, generate_series(1, 200) g WHERE org.number = 0;
INSERT INTO plant_group_member SELECT g.id, p.id FROM plant_group g
JOIN LATERAL (SELECT id FROM plant WHERE organization_id = g.organization_id ORDER BY md5(id::text || g.id::text) LIMIT 50) p
ON true;
"""
_KEPT: Final = ("certificate statistics", UNPAGED)
"""Cached lists: measured first without and then with a cache entry."""
_NOT_PAGES: Final = (
    "an empty route",
    "one plant",
    UNPAGED,
    f"{UNPAGED}, kept",
    *(f"{_KEPT[0]}{end}" for end in ("", ", kept")),
)
_REPORT: Final = "UPDATE plant SET last_seen_at = now(); ANALYZE;"


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids for the requests."""

    organization: str
    plants: Sequence[str]
    groups: Sequence[str]


def main() -> None:
    """Measure, print and write the result `lists`."""
    arguments = options("lists", __doc__)
    arguments.add_argument("--plants", type=int, help="20,000; if quick 2,000")
    arguments.add_argument("--others", type=int, help="plants of other organisations: 10,000; if quick 1,000")
    arguments.add_argument("--requests", type=int, help="500; if quick 100")
    chosen = arguments.parse_args()
    plants, others, requests = (2_000, 1_000, 100) if chosen.quick else (20_000, 10_000, 500)
    plants, requests = chosen.plants or plants, chosen.requests or requests
    with running_stack() as stack:
        ids = fill(stack, plants, chosen.others or others)
        stack.start_api()
        measures = uvloop.run(_measure(stack, ids, plants, requests))
    report("lists", measures, folder_of(chosen))


def fill(stack: Stack, ours: int, theirs: int) -> Ids:
    """Store an organisation with `ours` plants, and others with `theirs` plants."""
    with psycopg.connect(stack.database_url, autocommit=True) as db:
        db.execute("SET synchronous_commit = off")
        for text in (_ORGANISATIONS, _PLANTS, _DEVICES, _GROUPS, _REPORT):
            parameters = {"ours": ours, "theirs": theirs, "template": _INVERTER}
            for statement in text.split(";\n"):
                if statement.strip():
                    db.execute(statement.encode(), parameters if "%(" in statement else None)
        [(organization,)] = db.execute("SELECT id::text FROM org WHERE number = 0").fetchall()
        plants = db.execute("SELECT id::text FROM plant WHERE organization_id = %s::uuid", (organization,)).fetchall()
        groups = db.execute("SELECT id::text FROM plant_group").fetchall()
    return Ids(organization, [row[0] for row in plants], [row[0] for row in groups])


def _requests(ids: Ids, plants: int) -> dict[str, Callable[[], str]]:
    """Return a function for each kind of request that returns its next path."""
    last = max(1, plants // 20)

    def plant() -> str:
        return f"/api/v1/plants/{random.choice(ids.plants)}"

    def group() -> str:
        return f"/api/v1/plant-groups/{random.choice(ids.groups)}"

    return {
        "plants, first page": lambda: "/api/v1/plants",
        "plants, any page": lambda: f"/api/v1/plants?page={random.randint(1, last)}",
        "plants, last page": lambda: f"/api/v1/plants?page={last}",
        "plants by authMethod, first page": lambda: f"/api/v1/plants?authMethod={random.choice(['MTLS', 'TOKEN'])}",
        "plants by authMethod, any page": lambda: f"/api/v1/plants?authMethod=MTLS&page={random.randint(1, last // 3)}",
        "one plant": plant,
        "certificate statistics": lambda: "/api/v1/plants/certificate-stats",
        "sub-devices": lambda: f"{plant()}/sub-devices",
        "sub-devices by type": lambda: f"{plant()}/sub-devices?type=INVERTER",
        "sub-devices by status": lambda: f"{plant()}/sub-devices?status=ONLINE",
        "sub-devices, searched": lambda: f"{plant()}/sub-devices?search=device%20{random.randint(1, 6)}",
        "refused messages": lambda: f"{plant()}/refused-messages",
        "unregistered devices": lambda: f"{plant()}/unregistered-devices",
        "groups": lambda: "/api/v1/plant-groups",
        "one group of 50 plants": group,
        "plants of a group": lambda: f"{group()}/plants",
        "device templates": lambda: "/api/v1/device-templates",
        "alerts": lambda: "/api/v1/alerts",
        "alert rules": lambda: "/api/v1/alert-rules",
        UNPAGED: lambda: f"{group()}/available-plants",
    }


async def _measure(stack: Stack, ids: Ids, plants: int, requests: int) -> dict[str, Measure]:
    login = httpx.post(
        f"{stack.api_url}/api/v1/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD}, trust_env=False
    )
    token = login.raise_for_status().json()["access_token"]
    async with Client(stack, token, ids.organization) as client:
        for path in _requests(ids, plants).values():
            await client.get(path())
        times = {"an empty route": [await client.time(_EMPTY_ROUTE) for _ in range(requests)]}
        for name, path in _requests(ids, plants).items():
            count = requests if name != UNPAGED else max(1, requests // 20)
            if name not in _KEPT:
                times[name] = [await client.time(path()) for _ in range(count)]
                continue
            kept = times[f"{name}, kept"] = []
            made = times[name] = []
            for _ in range(count):
                chosen = path()
                await client.call("DELETE", f"/api/v1/admin/cache/flush/{ids.organization}")
                made.append(await client.time(chosen))
                kept.append(await client.time(chosen))
    return measures_of(times)


def measures_of(times: Mapping[str, Sequence[float]]) -> dict[str, Measure]:
    """Return median and 99th percentile of each kind of request, and of the slowest list page."""
    measures = {}
    for name, seconds in times.items():
        for share in (50, 99):
            goal = UNPAGED_GOAL if name == UNPAGED and share == 99 else None
            key = f"{re.sub('[^a-z]+', '_', name.lower())}_p{share}"
            measures[key] = Measure(percentile(seconds, share / 100) * 1e3, "ms", goal, "lower")
    slowest = max(percentile(times[name]) for name in times if name not in _NOT_PAGES)
    return measures | {"slowest_page_p99": Measure(slowest * 1e3, "ms", PAGE_GOAL, "lower")}


if __name__ == "__main__":
    main()
