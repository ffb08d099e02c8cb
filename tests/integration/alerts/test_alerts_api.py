"""Alerts over HTTP: filters, pages and counts against a plain model, what a record says, and changes of several at once."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.alerts.actions import get_alert
from gridfleet.domains.alerts.models import AlertStatus, Condition, Severity
from gridfleet.domains.alerts.store import resolve_by_itself
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.builders.api_keys import key_headers
from support.builders.interleaving import is_locked, until_blocked
from support.clients.ingest_bench import Bench
from support.clients.plants_over_http import Fleet, fleet_over_http
from support.servers.postbox import work_off

NOW = datetime.now(UTC).replace(microsecond=123456)
STATUSES, SEVERITIES = list(AlertStatus), list(Severity)


@dataclass(frozen=True)
class Stored:
    """A stored alert."""

    id: UUID
    plant: UUID
    status: AlertStatus
    severity: Severity
    created_at: datetime


@dataclass
class Alerts:
    """An organisation with alerts of its plants, and another one."""

    fleet: Fleet
    plants: list[UUID] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)

    @property
    def organization(self) -> UUID:
        return UUID(self.fleet.admin["x-org-id"])

    async def add_plant(self, headers: dict[str, str]) -> UUID:
        _, plant = await self.fleet.call(
            "POST", "/plants", {"name": "Roof", "serialNumber": uuid4().hex, "type": "GATEWAY"}, headers
        )
        return UUID(plant["id"])

    async def add(self, plant: UUID, status: AlertStatus, severity: Severity, hours: int = 0) -> Stored:
        found = Stored(uuid4(), plant, status, severity, NOW - timedelta(hours=hours))
        await self.fleet.sql(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at,"
            " created_at) SELECT %s, organization_id, id, %s, %s, 'Something', 'soc', 1, now(), %s FROM plant WHERE id = %s",
            found.id,
            severity,
            status,
            found.created_at,
            plant,
        )
        return found

    async def change(self, what: str, ids: list[UUID], headers: dict[str, str] | None = None) -> list[tuple[str, Any]]:
        """Change alerts, and return the outcomes and statuses."""
        status, answer = await self.fleet.call(
            "POST", f"/alerts/{what}", {"alertIds": [str(one) for one in ids]}, headers or self.fleet.operator
        )
        assert status == 200, answer
        return [(one["outcome"], one["status"]) for one in answer["results"]]

    async def add_rule_state(self, alert: Stored) -> None:
        """Add the state of a metric whose alert this is."""
        await self.fleet.sql(
            "WITH rule AS (INSERT INTO alert_rule (id, organization_id, name, metric, condition, threshold, severity,"
            " cooldown_minutes, enabled, for_seconds, auto_resolve) VALUES (gen_random_uuid(), %s, 'R', 'soc', 'LT', 1, 'INFO',"
            " 1, true, 0, true) RETURNING id), source AS (INSERT INTO telemetry_source (organization_id, plant_id, external_id)"
            " VALUES (%s, %s, %s) RETURNING id) INSERT INTO alert_state (rule_id, source_id, metric, since, seen_at, alert_id)"
            " SELECT rule.id, source.id, 'soc', now(), now(), %s FROM rule, source",
            self.organization,
            self.organization,
            alert.plant,
            alert.id.hex[:8],
            alert.id,
        )

    async def states(self) -> set[UUID]:
        """Return the alerts that are states of metrics."""
        return {row[0] for row in await self.fleet.sql("SELECT alert_id FROM alert_state")}


@pytest.fixture
async def empty(database_url: str, home: Path) -> AsyncIterator[Alerts]:
    async with fleet_over_http(database_url, home, rate_limits="off") as fleet:
        yield Alerts(fleet)


@pytest.fixture
async def alerts(empty: Alerts) -> Alerts:
    chosen = random.Random(15)
    empty.plants = [await empty.add_plant(empty.fleet.admin) for _ in range(3)]
    foreign = await empty.add_plant(empty.fleet.stranger)
    for plant in (*empty.plants, foreign):
        for _ in range(25):
            # Equal times, so that the order of ids decides.
            added = await empty.add(plant, chosen.choice(STATUSES), chosen.choice(SEVERITIES), chosen.randrange(5))
            if plant != foreign:
                empty.stored.append(added)
    return empty


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(data=st.data())
async def test_filters_pages_and_counts_are_those_of_a_model(alerts: Alerts, data: st.DataObject) -> None:
    draw, fleet = data.draw, alerts.fleet
    plant = draw(st.none() | st.sampled_from(range(4)))
    statuses = draw(st.sets(st.sampled_from(STATUSES)))
    severities = draw(st.sets(st.sampled_from(SEVERITIES)))
    hours = draw(st.none() | st.tuples(st.integers(-1, 4), st.integers(1, 6)))
    allowed = draw(st.none() | st.sets(st.sampled_from(range(3))))
    many = draw(st.booleans())
    limit = draw(st.sampled_from([1, 7, 100]))
    query: list[tuple[str, str]] = []
    wanted = alerts.stored
    if plant is not None:
        plant_id = alerts.plants[plant] if plant < 3 else uuid4()
        query.append(("plantId", str(plant_id)))
        wanted = [one for one in wanted if one.plant == plant_id]
    if hours is not None:
        until = NOW - timedelta(hours=hours[0])
        since = until - timedelta(hours=hours[1])
        query += [("from", since.isoformat()), ("to", until.isoformat())]
        wanted = [one for one in wanted if since <= one.created_at < until]
    headers = fleet.viewer
    if allowed is not None:
        # A key of many plants is served from another index than a key of few.
        ids = {alerts.plants[number] for number in allowed}
        others = {uuid4() for _ in range(150)} if many else set[UUID]()
        _, headers = await key_headers(fleet.service.state.database, alerts.organization, ["telemetry:read"], ids | others)
        wanted = [one for one in wanted if one.plant in ids]

    answer = await fleet.service.client.get("/api/v1/alerts/counts", params=query, headers=headers)

    expected = Counter((one.status.lower(), one.severity.lower()) for one in wanted)
    assert answer.json() == {
        status.lower(): {severity.lower(): expected[status.lower(), severity.lower()] for severity in SEVERITIES}
        for status in STATUSES
    }

    query += [("status", one) for one in statuses] + [("severity", one) for one in severities]
    wanted = [one for one in wanted if not statuses or one.status in statuses]
    wanted = [one for one in wanted if not severities or one.severity in severities]
    ordered = sorted(wanted, key=lambda one: (one.created_at, one.id), reverse=True)
    pages = range(1, len(ordered) // limit + 2) if limit > 1 else (1, max(1, len(ordered)))
    for page in pages:
        answer = await fleet.service.client.get(
            "/api/v1/alerts", params=[*query, ("limit", str(limit)), ("page", str(page))], headers=headers
        )
        shown = [(one["id"], one["status"], one["severity"]) for one in answer.json()["data"]]
        assert shown == [(str(one.id), one.status, one.severity) for one in ordered[(page - 1) * limit : page * limit]]
        assert answer.json()["meta"]["total"] == len(ordered)


@pytest.mark.parametrize(
    ("path", "details"),
    [
        ("/alerts?plantId=1&status=DONE&severity=X&from=now&limit=101", ["from", "limit", "plantId", "severity.0", "status.0"]),
        ("/alerts?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", ["from"]),
        ("/alerts?" + "&".join(["severity=INFO"] * 5), ["severity"]),
        ("/alerts/counts?plantId=1&from=now&status=ACTIVE", ["from", "plantId", "status"]),
        ("/alerts/counts?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", ["from"]),
    ],
)
async def test_every_error_of_a_query_is_named(empty: Alerts, path: str, details: list[str]) -> None:
    status, answer = await empty.fleet.call("GET", path)

    assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
    assert sorted({line.split(":")[0] for line in answer["details"]}) == details


async def test_an_alert_says_which_rule_raised_it_for_which_value(bench: Bench) -> None:
    plant = await bench.plant(["bat1"])
    rule = await add_rule(bench.database, plant.organization_id, severity=Severity.CRITICAL)
    await bench.take(plant.message(snapshot(ago(5), bat1={"soc": 9.5})))
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET name = 'Other', threshold = 5 WHERE id = %s", (rule.id,))
    [raised] = await alerts_of(bench.database, plant.organization_id)

    async with bench.database.transaction() as db:
        alert = await get_alert(db, operator(plant.organization_id), raised.id)

    assert (alert.plant_name, alert.rule_id, alert.rule_name) == ("Plant", rule.id, "Low battery")
    assert (alert.metric, alert.condition, alert.threshold, alert.value) == ("bat1.soc", Condition.LT, 10.0, 9.5)
    assert alert.measured_at < alert.created_at


async def test_every_member_reads_who_acknowledged(empty: Alerts) -> None:
    fleet = empty.fleet
    alert = await empty.add(await empty.add_plant(fleet.admin), AlertStatus.ACTIVE, Severity.INFO)
    key_id, key = await key_headers(fleet.service.state.database, empty.organization, ["telemetry:read", "telemetry:write"])
    other = await empty.add(alert.plant, AlertStatus.ACTIVE, Severity.INFO)

    _, acknowledged = await fleet.call("PATCH", f"/alerts/{alert.id}/acknowledge", headers=fleet.operator)
    _, by_key = await fleet.call("PATCH", f"/alerts/{other.id}/acknowledge", headers=key)

    assert acknowledged["acknowledgedByName"] == "Test User"
    assert (by_key["acknowledgedBy"], by_key["acknowledgedByName"]) == (str(key_id), None)
    _, page = await fleet.call("GET", "/alerts", headers=fleet.viewer)
    assert {one["id"]: one["acknowledgedByName"] for one in page["data"]} == {str(alert.id): "Test User", str(other.id): "Key"}
    _, plant = await fleet.call("GET", f"/plants/{alert.plant}", headers=fleet.viewer)
    assert {one["acknowledgedByName"] for one in plant["alerts"]} == {"Test User", "Key"}
    _, page = await fleet.call("GET", "/alerts", headers=key)
    assert {one["acknowledgedByName"] for one in page["data"]} == {None}
    await fleet.call("PATCH", f"/plants/{alert.plant}", {"organizationId": fleet.stranger["x-org-id"]}, fleet.super_admin)
    await work_off(fleet.service.state)  # the move has queued the job
    _, page = await fleet.call("GET", "/alerts", headers=fleet.stranger)
    assert [(one["acknowledgedByName"], one["plantName"]) for one in page["data"]] == [(None, "Roof")] * 2


async def test_several_alerts_are_changed_and_each_has_its_outcome(empty: Alerts) -> None:
    fleet = empty.fleet
    ours, theirs = await empty.add_plant(fleet.admin), await empty.add_plant(fleet.stranger)
    active, acknowledged, resolved = [await empty.add(ours, status, Severity.INFO) for status in STATUSES]
    foreign = await empty.add(theirs, AlertStatus.ACTIVE, Severity.INFO)
    ids = [foreign.id, resolved.id, active.id, uuid4(), acknowledged.id, active.id]

    assert await empty.change("acknowledge", ids) == [
        ("NOT_FOUND", None),
        ("UNCHANGED", "RESOLVED"),
        ("CHANGED", "ACKNOWLEDGED"),
        ("NOT_FOUND", None),
        ("UNCHANGED", "ACKNOWLEDGED"),
    ]
    assert await empty.change("resolve", ids) == [
        ("NOT_FOUND", None),
        ("UNCHANGED", "RESOLVED"),
        ("CHANGED", "RESOLVED"),
        ("NOT_FOUND", None),
        ("CHANGED", "RESOLVED"),
    ]
    _, shown = await fleet.call("GET", f"/alerts/{active.id}")
    assert (shown["status"], shown["acknowledgedByName"]) == ("RESOLVED", "Test User")
    assert shown["resolvedAt"] is not None
    assert (await fleet.call("GET", f"/alerts/{foreign.id}", headers=fleet.stranger))[1]["status"] == "ACTIVE"


async def test_a_key_changes_alerts_of_its_plants_only(empty: Alerts) -> None:
    fleet = empty.fleet
    plants = [await empty.add_plant(fleet.admin) for _ in range(2)]
    own, other = [await empty.add(plant, AlertStatus.ACTIVE, Severity.INFO) for plant in plants]
    _, key = await key_headers(fleet.service.state.database, empty.organization, ["telemetry:write"], plants[:1])

    assert await empty.change("resolve", [own.id, other.id], key) == [("CHANGED", "RESOLVED"), ("NOT_FOUND", None)]
    assert (await fleet.call("GET", f"/alerts/{other.id}"))[1]["status"] == "ACTIVE"


async def test_a_repeated_request_with_its_key_gets_its_first_response(empty: Alerts) -> None:
    fleet = empty.fleet
    alert = await empty.add(await empty.add_plant(fleet.admin), AlertStatus.ACTIVE, Severity.INFO)
    headers = fleet.operator | {"idempotency-key": "shift-1"}

    first, second = [await empty.change("acknowledge", [alert.id], headers) for _ in range(2)]

    assert first == second == [("CHANGED", "ACKNOWLEDGED")]
    assert await empty.change("acknowledge", [alert.id]) == [("UNCHANGED", "ACKNOWLEDGED")]


@pytest.mark.parametrize("what", ["acknowledge", "resolve"])
@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "alertIds: is required"),
        ({"alertIds": []}, "alertIds: must have at least 1 item"),
        ({"alertIds": ["x"], "all": True}, None),
        ({"alertIds": [str(uuid4())] * 501}, None),
    ],
)
async def test_a_change_of_several_is_bounded_and_checked(empty: Alerts, what: str, body: Any, detail: str | None) -> None:
    status, answer = await empty.fleet.call("POST", f"/alerts/{what}", body, empty.fleet.operator)

    assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
    assert detail is None or answer["details"] == [detail]
    assert (await empty.fleet.call("POST", f"/alerts/{what}", body, empty.fleet.viewer))[1]["code"] == "FORBIDDEN"


async def test_500_alerts_are_resolved_at_once(empty: Alerts) -> None:
    plant = await empty.add_plant(empty.fleet.admin)
    stored = [await empty.add(plant, AlertStatus.ACTIVE, Severity.INFO) for _ in range(500)]

    assert await empty.change("resolve", [one.id for one in stored]) == [("CHANGED", "RESOLVED")] * 500


async def test_resolving_waits_for_ingest_without_a_deadlock(empty: Alerts) -> None:
    """Ingest locks states of metrics in any order. Resolving holds none of them while it waits for another one."""
    database, plant = empty.fleet.service.state.database, await empty.add_plant(empty.fleet.admin)
    stored = [await empty.add(plant, AlertStatus.ACTIVE, Severity.INFO) for _ in range(3)]
    for one in stored:
        await empty.add_rule_state(one)
    async with database.transaction() as db:
        await db.execute("SELECT FROM alert_state WHERE alert_id = %s FOR UPDATE", (stored[1].id,))
        resolving = asyncio.create_task(empty.change("resolve", [one.id for one in stored]))
        while not await is_locked(database, "alert", stored[2].id):
            await asyncio.sleep(0.01)
        # With the states of the other alerts in its hands the request would wait for this transaction, and this one for it.
        await db.execute("UPDATE alert_state SET seen_at = now() WHERE alert_id <> %s", (stored[1].id,))
        assert await empty.states() == {one.id for one in stored}
    assert await resolving == [("CHANGED", "RESOLVED")] * 3
    assert await empty.states() == set()


async def test_alerts_are_locked_in_the_order_of_their_ids(empty: Alerts) -> None:
    """By users and by ingest: otherwise each could wait for the other."""
    database, plant = empty.fleet.service.state.database, await empty.add_plant(empty.fleet.admin)
    stored = sorted(
        [await empty.add(plant, AlertStatus.ACTIVE, Severity.INFO) for _ in range(3)], key=lambda one: one.id, reverse=True
    )

    async def by_ingest() -> None:
        async with database.transaction() as db:
            await resolve_by_itself(db, [one.id for one in stored])

    for change in (empty.change("acknowledge", [one.id for one in stored]), by_ingest()):
        async with database.transaction() as db:
            await db.execute("SELECT FROM alert WHERE id = %s FOR NO KEY UPDATE", (stored[-1].id,))
            changing = asyncio.create_task(change)  # type: ignore[arg-type]
            await until_blocked(database)
            assert [await is_locked(database, "alert", one.id) for one in stored[:2]] == [False, False]
        await changing
