"""Rules, alerts and push tokens over REST."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.alerts.rules import back_test, registry
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import format_time
from support.builders.accounts import add_member, add_user, session_of
from support.builders.alerting import add_rule, ago
from support.builders.interleaving import until_blocked
from support.builders.telemetry_records import RecordedPlant
from support.servers.api_service import ApiService, api_service, bearer

NEW = {"name": "Low battery", "metric": "soc", "condition": "LT", "threshold": 10}


@dataclass
class Desk:
    """A user of an organisation with one plant."""

    service: ApiService
    plant: RecordedPlant
    headers: dict[str, str]

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON."""
        answer = await self.service.client.request(method, f"/api/v1{path}", headers=self.headers, json=body)
        return answer.status_code, answer.json()


@pytest.fixture
async def desk(database_url: str, home: Path) -> AsyncIterator[Desk]:
    async with api_service(database_url, home) as service:
        plant = await RecordedPlant.create(service.state.database)
        yield await at(service, plant, OrgRole.OPERATOR)


async def at(service: ApiService, plant: RecordedPlant, role: OrgRole) -> Desk:
    """The desk of a new member with this role."""
    user = await add_user(service.state.database)
    await add_member(service.state.database, plant.organization_id, user.id, role)
    token = await session_of(service.state.database, service.state.access_tokens, user)
    return Desk(service, plant, {**bearer(token), "x-org-id": str(plant.organization_id)})


async def test_a_plant_has_at_most_500_rules_and_an_organisation_as_many_for_all_plants(desk: Desk) -> None:
    async with desk.service.state.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert_rule (id, organization_id, plant_id, name, metric, condition, threshold, severity,"
            " cooldown_minutes, enabled, for_seconds, auto_resolve) SELECT gen_random_uuid(), p.organization_id,"
            " NULL, 'r', 'soc', 'LT', n, 'INFO', 15, true, 0, false"
            " FROM plant p, generate_series(1, 499) AS n WHERE p.id = %s",
            (desk.plant.id,),
        )
    status, last = await desk.call("POST", "/alert-rules", NEW)
    assert status == 201
    status, refusal = await desk.call("POST", "/alert-rules", NEW)
    assert (status, refusal["code"]) == (400, "VALIDATION_ERROR")
    assert refusal["details"] == ["plantId: there are 500 rules for all plants, the maximum"]
    status, own = await desk.call("POST", "/alert-rules", {**NEW, "plantId": str(desk.plant.id)})
    assert status == 201
    status, refusal = await desk.call("PATCH", f"/alert-rules/{own['id']}", {"plantId": None})
    assert (status, refusal["code"]) == (400, "VALIDATION_ERROR")
    assert (await desk.call("PATCH", f"/alert-rules/{last['id']}", {"plantId": None, "threshold": 5}))[0] == 200


async def test_an_organisation_has_a_bounded_number_of_rules(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of one rule, ingest reads those of all plants of the organisation: 250,000 took 7 s of CPU."""
    monkeypatch.setattr(registry, "MOST_OF_ORGANIZATION", 2)
    own = {**NEW, "plantId": str(desk.plant.id)}
    made = [await desk.call("POST", "/alert-rules", rule) for rule in (NEW, own)]
    assert [status for status, _ in made] == [201, 201]
    for rule in (NEW, own):
        status, refusal = await desk.call("POST", "/alert-rules", rule)
        assert (status, refusal["details"]) == (400, ["plantId: the organisation has 2 rules, the maximum"])
    path = f"/alert-rules/{made[0][1]['id']}"
    assert (await desk.call("PATCH", path, {"plantId": str(desk.plant.id)}))[0] == 200
    assert (await desk.call("DELETE", path))[0] == 200
    assert (await desk.call("POST", "/alert-rules", NEW))[0] == 201
    neighbour = await RecordedPlant.create(desk.service.state.database)
    other = await at(desk.service, neighbour, OrgRole.OPERATOR)
    for _ in range(2):
        assert (await other.call("POST", "/alert-rules", NEW))[0] == 201


async def test_a_rule_is_made_listed_changed_and_deleted(desk: Desk) -> None:
    status, rule = await desk.call("POST", "/alert-rules", NEW)
    assert status == 201
    assert rule == rule | NEW | {
        "plantId": None,
        "organizationId": str(desk.plant.organization_id),
        "severity": "WARNING",
        "cooldownMinutes": 15,
        "enabled": True,
        "forSeconds": 0,
        "clearThreshold": None,
        "autoResolve": False,
        "unit": None,
        "lastTriggeredAt": None,
    }
    own = (await desk.call("POST", "/alert-rules", {**NEW, "plantId": str(desk.plant.id)}))[1]
    assert [one["id"] for one in (await desk.call("GET", "/alert-rules"))[1]["data"]] == [own["id"], rule["id"]]
    of_plant = (await desk.call("GET", f"/alert-rules?plantId={desk.plant.id}"))[1]
    assert [one["id"] for one in of_plant["data"]] == [own["id"]]
    path = f"/alert-rules/{rule['id']}"
    status, changed = await desk.call("PATCH", path, {"threshold": 12.5, "plantId": str(desk.plant.id), "clearThreshold": 20})
    assert status == 200
    assert (changed["threshold"], changed["plantId"], changed["clearThreshold"]) == (12.5, str(desk.plant.id), 20)
    assert (await desk.call("PATCH", path, {"plantId": None, "clearThreshold": None}))[1]["plantId"] is None
    assert (await desk.call("PATCH", path, {}))[0] == 200
    status, answer = await desk.call("DELETE", path)
    assert (status, set(answer)) == (200, {"message"})
    assert (await desk.call("GET", path))[1]["code"] == (await desk.call("DELETE", path))[1]["code"] == "NOT_FOUND"
    assert (await desk.call("PATCH", path, {"enabled": False}))[1]["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x" * 201},
        {"name": ""},
        {"metric": "x" * 101},
        {"condition": "NE"},
        {"threshold": "10"},
        {"threshold": None},
        {"severity": "BAD"},
        {"cooldownMinutes": 0},
        {"cooldownMinutes": 1441},
        {"cooldownMinutes": 1.5},
        {"enabled": "yes"},
        {"plantId": "5"},
        {"plantId": str(UUID(int=1))},
        {"forSeconds": -1},
        {"clearThreshold": 9},
        {"surprise": 1},
    ],
)
async def test_limits(desk: Desk, wrong: dict[str, Any]) -> None:
    status, refused = await desk.call("POST", "/alert-rules", {**NEW, **wrong})
    assert (status, refused["code"]) == (400, "VALIDATION_ERROR")
    assert refused["details"][0].startswith(next(iter(wrong)))
    rule = (await desk.call("POST", "/alert-rules", NEW))[1]
    assert (await desk.call("PATCH", f"/alert-rules/{rule['id']}", wrong))[1]["code"] == "VALIDATION_ERROR"


async def test_anothers_plant_rule_and_alert_are_not_there(desk: Desk) -> None:
    stranger = await at(desk.service, await RecordedPlant.create(desk.service.state.database), OrgRole.ORG_ADMIN)
    assert (await stranger.call("POST", "/alert-rules", {**NEW, "plantId": str(desk.plant.id)}))[1][
        "code"
    ] == "VALIDATION_ERROR"
    rule = (await desk.call("POST", "/alert-rules", NEW))[1]
    for method, body in (("GET", None), ("PATCH", {"enabled": False}), ("DELETE", None)):
        assert (await stranger.call(method, f"/alert-rules/{rule['id']}", body))[1]["code"] == "NOT_FOUND"
    alert_id = await add_alert(desk, "ACTIVE", "WARNING")
    assert (await stranger.call("GET", "/alerts"))[1]["data"] == []
    for method, path in (("GET", ""), ("PATCH", "/acknowledge"), ("PATCH", "/resolve")):
        assert (await stranger.call(method, f"/alerts/{alert_id}{path}"))[1]["code"] == "NOT_FOUND"
    viewer = await at(desk.service, desk.plant, OrgRole.VIEWER)
    assert (await viewer.call("PATCH", f"/alerts/{alert_id}/resolve"))[1]["code"] == "FORBIDDEN"
    assert (await viewer.call("GET", f"/alerts/{alert_id}"))[1]["status"] == "ACTIVE"


async def add_alert(desk: Desk, status: str, severity: str) -> str:
    """A stored alert's id."""
    alert_id = new_id()
    async with desk.service.state.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at)"
            " VALUES (%s, %s, %s, %s, %s, 'Something', 'soc', 1, now())",
            (alert_id, desk.plant.organization_id, desk.plant.id, severity, status),
        )
    return str(alert_id)


async def test_alerts_are_filtered_and_shown_with_their_plant(desk: Desk) -> None:
    ids = {
        (status, severity): await add_alert(desk, status, severity)
        for status in ("ACTIVE", "ACKNOWLEDGED", "RESOLVED")
        for severity in ("INFO", "CRITICAL")
    }

    async def found(query: str) -> set[str]:
        return {one["id"] for one in (await desk.call("GET", f"/alerts?{query}"))[1]["data"]}

    assert await found("") == set(ids.values())
    assert await found("status=ACTIVE") == {ids["ACTIVE", "INFO"], ids["ACTIVE", "CRITICAL"]}
    assert await found(f"severity=CRITICAL&status=RESOLVED&plantId={desk.plant.id}") == {ids["RESOLVED", "CRITICAL"]}
    assert await found(f"plantId={new_id()}") == set()
    assert (await desk.call("GET", "/alerts?status=GONE"))[1]["code"] == "VALIDATION_ERROR"
    shown = {one["id"] for one in (await desk.call("GET", f"/plants/{desk.plant.id}"))[1]["alerts"]}
    assert shown == {alert_id for (status, _), alert_id in ids.items() if status != "RESOLVED"}


async def test_acknowledging_and_resolving_twice_changes_nothing(desk: Desk) -> None:
    alert_id = await add_alert(desk, "ACTIVE", "INFO")
    colleague = await at(desk.service, desk.plant, OrgRole.ORG_ADMIN)
    status, first = await desk.call("PATCH", f"/alerts/{alert_id}/acknowledge")
    assert (status, first["status"]) == (200, "ACKNOWLEDGED")
    assert (await colleague.call("PATCH", f"/alerts/{alert_id}/acknowledge"))[1] == first
    resolved = (await colleague.call("PATCH", f"/alerts/{alert_id}/resolve"))[1]
    assert (resolved["status"], resolved["acknowledgedBy"]) == ("RESOLVED", first["acknowledgedBy"])
    assert (await desk.call("PATCH", f"/alerts/{alert_id}/resolve"))[1] == resolved
    assert (await desk.call("PATCH", f"/alerts/{alert_id}/acknowledge"))[1] == resolved


async def test_a_preview_replays_history(desk: Desk) -> None:
    start = ago(3600).replace(microsecond=0)

    def moment(minute: int) -> datetime:
        return start + timedelta(minutes=minute)

    await desk.plant.add_device("bat1")
    await desk.plant.write(
        "bat1", ["soc", "power"], {moment(n): (value, 1.0) for n, value in enumerate([50, 9, 8, 25, 7, 50, 5, 4])}
    )
    await desk.plant.write(None, ["soc"], {moment(3): (1,)})

    async def preview(**changes: Any) -> Any:
        span = {"from": format_time(start), "to": format_time(start + timedelta(hours=1))}
        return (await desk.call("POST", "/alert-rules/preview", {"rule": {**NEW, **changes}, **span}))[1]

    async def minutes(**changes: Any) -> list[tuple[str, int]]:
        alerts = (await preview(**changes))["alerts"]
        return [(one["metric"], int((datetime.fromisoformat(one["time"]) - start).total_seconds() // 60)) for one in alerts]

    whole = await preview(cooldownMinutes=1)
    assert (whole["points"], whole["matches"], whole["alertCount"]) == (9, 6, 6)
    assert await minutes(cooldownMinutes=2) == [("bat1.soc", 1), ("soc", 3), ("bat1.soc", 6)]
    assert await minutes(metric="bat1.soc", cooldownMinutes=1, clearThreshold=20) == [("bat1.soc", n) for n in (1, 4, 6)]
    assert await minutes(metric="bat1.soc", cooldownMinutes=1, forSeconds=60) == [("bat1.soc", 2), ("bat1.soc", 7)]
    assert await minutes(metric="power", condition="EQ", threshold=1) == [("bat1.power", 0)]
    cleared = (await preview(metric="bat1.soc", autoResolve=True))["alerts"][0]["clearedAt"]
    assert datetime.fromisoformat(cleared) == moment(3)
    assert (await desk.call("GET", "/alerts"))[1]["data"] == []


@pytest.mark.parametrize("threshold", [0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308])
async def test_a_preview_takes_every_double(desk: Desk, threshold: float) -> None:
    start = ago(3600).replace(microsecond=0)
    values = [5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 0.0, -0.0]
    await desk.plant.write(None, ["soc"], {start + timedelta(minutes=n): (value,) for n, value in enumerate(values)})
    span = {"from": format_time(start), "to": format_time(start + timedelta(hours=1))}
    for condition, holds in (("LT", float.__lt__), ("GT", float.__gt__), ("EQ", float.__eq__)):
        rule = {**NEW, "condition": condition, "threshold": threshold, "cooldownMinutes": 1}
        status, found = await desk.call("POST", "/alert-rules/preview", {"rule": rule, **span})
        assert status == 200
        expected = [value for value in values if holds(value, float(threshold))]
        assert [one["value"] for one in found["alerts"]] == expected


async def test_a_preview_has_limits(desk: Desk) -> None:
    now, stranger = ago(0), await RecordedPlant.create(desk.service.state.database)
    for since, rule, complaint in [
        (now - timedelta(days=31, hours=3, seconds=1), NEW, "from"),
        (now, NEW, "from"),
        (now - timedelta(days=1), {**NEW, "plantId": str(stranger.id)}, "plantId"),
        (now - timedelta(days=1), {**NEW, "clearThreshold": 1}, "rule.clearThreshold"),
    ]:
        body = {"rule": rule, "from": format_time(since), "to": format_time(now)}
        status, refused = await desk.call("POST", "/alert-rules/preview", body)
        assert (status, refused["code"]) == (400, "VALIDATION_ERROR")
        assert refused["details"][0].startswith(complaint)


async def test_a_preview_of_too_many_devices_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three million positions were loaded at once: no other request was answered for seconds."""
    await desk.plant.write(None, ["soc"], {ago(60): (1,)})
    await desk.plant.write(None, [Metric("soc", "%"), "power"], {ago(30): (2, 3)})
    body = {"rule": {**NEW, "metric": "soc"}, "from": format_time(ago(3600)), "to": format_time(ago(0))}
    monkeypatch.setattr(back_test, "MOST_POSITIONS", 2)
    assert (await desk.call("POST", "/alert-rules/preview", body))[0] == 200
    monkeypatch.setattr(back_test, "MOST_POSITIONS", 1)
    status, refused = await desk.call("POST", "/alert-rules/preview", body)
    assert (status, refused["code"]) == (400, "VALIDATION_ERROR")
    assert refused["details"] == ["rule.plantId: more than 1 plants and devices; choose one plant"]


@pytest.mark.local_tables(reason="the statistics of reads are those of the workers")
async def test_a_preview_of_too_many_values_does_not_read_them_all(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """All values were sorted before the first was counted: those of a large fleet for 30 s, until an error 500."""
    monkeypatch.setattr(back_test, "MOST_POINTS", 100)
    now, layout = ago(0), await desk.plant.layout(["soc"])
    await desk.plant.write(None, ["soc"], {now: (1,)})
    source = await desk.plant.source(None)
    rule = await add_rule(desk.plant.database, desk.plant.organization_id)
    async with desk.plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_frame (source_id, time, layout_id, vals) SELECT %s, %s - n * interval '1 ms', %s, '{1}'"
            " FROM generate_series(1, 20000) AS n",
            (source, now, layout),
        )
    async with desk.plant.database.transaction() as db:
        with pytest.raises(ValidationFailed):
            await back_test.back_test(db, desk.plant.org, rule, now - timedelta(hours=1), now)
        cursor = await db.execute(
            "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname LIKE 'telemetry_frame_%'"
        )
        [[read]] = await cursor.fetchall()
    assert 100 <= read < 1_000


async def test_push_tokens(desk: Desk) -> None:
    path = "/notifications/push-tokens"
    token = "ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]"
    status, first = await desk.call("POST", path, {"token": token, "platform": "ios"})
    assert (status, set(first)) == (201, {"id", "userId", "token", "platform", "createdAt"})
    colleague = await at(desk.service, desk.plant, OrgRole.VIEWER)
    moved = (await colleague.call("POST", path, {"token": token}))[1]
    assert (moved["id"], moved["platform"]) == (first["id"], None)
    assert moved["userId"] != first["userId"]
    for bad in ({"token": "abc"}, {"token": "ExponentPushToken[]"}, {}, {"token": token, "platform": 5}):
        assert (await desk.call("POST", path, bad))[1]["code"] == "BAD_REQUEST"
    assert (await desk.call("DELETE", f"{path}/abc"))[1]["code"] == "BAD_REQUEST"
    for _ in range(2):
        status, answer = await colleague.call("DELETE", f"{path}/{token}")
        assert (status, set(answer)) == (200, {"message"})


@pytest.mark.parametrize("phone", ["420123", "+0123456789", "+42012345678901234", "", 5])
async def test_a_phone_is_an_international_number(desk: Desk, phone: object) -> None:
    assert (await desk.call("PATCH", "/auth/me", {"phone": phone}))[1]["code"] == "VALIDATION_ERROR"
    assert (await desk.call("PATCH", "/auth/me", {"phone": "+420123456789"}))[0] == 200
    async with desk.service.state.database.transaction() as db:
        assert await (await db.execute("SELECT phone FROM user_account WHERE phone IS NOT NULL")).fetchall() == [
            ("+420123456789",)
        ]
    assert (await desk.call("PATCH", "/auth/me", {"phone": None}))[0] == 200
    assert (await desk.call("PATCH", "/auth/me", {"name": "Olga"}))[0] == 200


async def test_a_rules_unit_is_the_measurements_unless_it_is_given(desk: Desk) -> None:
    await desk.plant.write(None, [Metric("soc", "%")], {ago(60): [50.0]})
    status, rule = await desk.call("POST", "/alert-rules", NEW)
    assert (status, rule["unit"]) == (201, "%")
    path = f"/alert-rules/{rule['id']}"
    assert (await desk.call("PATCH", path, {"unit": "‰", "threshold": 100}))[1]["unit"] == "‰"
    assert (await desk.call("PATCH", path, {"threshold": 90}))[1]["unit"] == "‰"
    assert (await desk.call("PATCH", path, {"unit": None}))[1]["unit"] == "%"
    assert (await desk.call("PATCH", path, {"metric": "voltage"}))[1]["unit"] is None
    assert (await desk.call("POST", "/alert-rules", {**NEW, "unit": ""}))[1]["code"] == "VALIDATION_ERROR"


async def test_a_preview_compares_values_of_an_earlier_unit(desk: Desk) -> None:
    start = ago(600)
    for number, (unit, value) in enumerate([("W", 900.0), ("kW", 0.9), ("kW", 0.04), ("W", 40.0), ("K", 1.0)]):
        await desk.plant.write(None, [Metric("power", unit)], {start + number * timedelta(minutes=1): [value]})
    rule = {**NEW, "metric": "power", "threshold": 50, "unit": "W"}
    asked = {"rule": rule, "from": format_time(start), "to": format_time(ago(0))}
    status, answer = await desk.call("POST", "/alert-rules/preview", asked)
    assert status == 200
    assert (answer["points"], answer["matches"]) == (4, 2)


@pytest.mark.parametrize("changes", [False, True])
async def test_a_rule_for_a_plant_that_moves_meanwhile_is_refused(desk: Desk, changes: bool) -> None:
    other = await RecordedPlant.create(desk.service.state.database)
    rule = (await desk.call("POST", "/alert-rules", NEW))[1]
    watched = {"plantId": str(desk.plant.id)}
    async with desk.service.state.database.transaction() as db:
        await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (other.organization_id, desk.plant.id))
        call = (
            desk.call("PATCH", f"/alert-rules/{rule['id']}", watched)
            if changes
            else desk.call("POST", "/alert-rules", NEW | watched)
        )
        writing = asyncio.create_task(call)
        await until_blocked(desk.service.state.database)
    status, answer = await writing
    assert (status, answer["details"]) == (400, ["plantId: is no plant of this organisation"])
