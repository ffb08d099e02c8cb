"""Changes over HTTP as audit events: which are recorded, what they say, and how they are found again."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.audit.models import AuditEvent, AuditFilter, Event, Subject, SubjectType
from gridfleet.domains.audit.queries import list_events
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.device_templates.catalogue import seed_system_templates
from gridfleet.kernel.caller import Actor, ActorType, OrgRole, OrgScope, PlatformScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.pool import open_database
from gridfleet.kernel.pagination import Paging
from support.builders.accounts import caller_of
from support.clients.people import People, Person, refused
from support.servers.api_service import api_service
from support.servers.free_ports import free_ports

BATTERY = "00000000-0000-7000-8000-000000000005"
RULE = {"name": "High", "metric": "p", "condition": "GT", "threshold": 1}
BLOCK = {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}
TOKEN = "ExpoPushToken[aaaaaaaaaaaaaaaaaaaaaa]"


class Fleet:
    """An organisation whose ORG_ADMIN changes things, and the events that follow."""

    def __init__(self, people: People, admin: Person, root: Person, org: UUID) -> None:
        self.people, self.admin, self.root, self.org = people, admin, root, org
        self.secrets: set[str] = set()

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Make a call that succeeds and return the JSON of its response."""
        answer = await self.people.call(method, path, body, **{"who": self.admin, "org": self.org} | more)
        assert answer.is_success, answer.text
        return answer.json()

    async def events(self, query: str = "", **more: Any) -> list[dict[str, Any]]:
        """Return the newest events of the organisation, oldest first."""
        found = await self.call("GET", f"/audit-events?limit=100{query}", **more)
        return list(found["data"][::-1])

    async def changes(self, method: str, path: str, body: Any = None, **more: Any) -> list[tuple[str, dict[str, Any]]]:
        """Make a call and return the kinds and details of the events that it caused."""
        before = {event["id"] for event in await self.events(who=self.root, org=None)}
        await self.call(method, path, body, **more)
        after = [event for event in await self.events(who=self.root, org=None) if event["id"] not in before]
        assert {event["actorId"] for event in after} <= {str(more.get("who", self.admin).id)}
        return [(event["event"], event["details"]) for event in after]


@pytest.fixture
async def fleet(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    async with api_service(database_url, home, rate_limits="off", esm_allow_private=True) as service:
        async with service.state.database.transaction() as db:
            await seed_system_templates(db)
        people = People(service)
        admin, root = await people.person(), await people.person(super_admin=True)
        yield Fleet(people, admin, root, (await people.organization(ORG_ADMIN=admin)).id)


async def plant(fleet: Fleet, serial: str = "S1", **more: Any) -> str:
    body = {"name": "Plant", "serialNumber": serial, "type": "GATEWAY", **more}
    return str((await fleet.call("POST", "/plants", body))["id"])


async def test_a_plants_life_is_recorded(fleet: Fleet) -> None:
    body = {"name": "Plant", "serialNumber": "S1", "type": "GATEWAY", "authMethod": "TOKEN"}
    [(event, details)] = await fleet.changes("POST", "/plants", body)
    assert (event, details) == ("plant.created", {"name": "Plant", "serialNumber": "S1", "authMethod": "TOKEN"})
    [event] = await fleet.events("&event=plant.created")
    assert (event["subjectType"], event["subjectId"]) == ("PLANT", event["plantId"])
    path = f"/plants/{event['plantId']}"
    assert await fleet.changes("PATCH", path, {"name": "Roof", "metadata": {"password": "hunter2"}}) == [
        ("plant.changed", {"name": ["Plant", "Roof"], "metadata": "changed"})
    ]
    assert await fleet.changes("PATCH", path, {"name": "Roof"}) == []
    for method, action, expected in (
        ("POST", "/provision", [("plant.provisioned", {"authMethod": "TOKEN"})]),
        ("GET", "/provision/download", [("plant.package_downloaded", {})]),
        ("POST", "/rotate-secret", [("plant.secret_rotated", {})]),
        ("POST", "/suspend", [("plant.suspended", {})]),
        ("POST", "/reactivate", [("plant.reactivated", {})]),
    ):
        assert await fleet.changes(method, f"{path}{action}") == expected
    [(event, details)] = await fleet.changes("POST", f"{path}/mqtt-token")
    assert (event, set(details)) == ("plant.token_issued", {"expiresAt"})
    assert await fleet.changes("POST", f"{path}/revoke") == [("plant.revoked", {})]
    assert await fleet.changes("DELETE", path) == [("plant.deleted", {"name": "Roof", "serialNumber": "S1"})]
    text = json.dumps(await fleet.events())
    assert "hunter2" not in text


async def test_no_event_holds_a_secret(fleet: Fleet) -> None:
    """Every text of 16 characters and more in the secret responses is looked for in the events."""
    secrets: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                collect(one)
        elif isinstance(value, str) and len(value) >= 16:
            secrets.add(value)

    for number, method in enumerate(("MTLS", "TOKEN", "PASSWORD")):
        plant_id = await plant(fleet, f"S{number}", authMethod=method)
        collect((await fleet.call("POST", f"/plants/{plant_id}/provision"))["security"])
        collect((await fleet.call("POST", f"/plants/{plant_id}/rotate-secret"))["hmacSecret"])
        if method == "MTLS":
            collect(await fleet.call("POST", f"/plants/{plant_id}/renew-certificate"))
        if method == "TOKEN":
            collect((await fleet.call("POST", f"/plants/{plant_id}/mqtt-token"))["token"])
    key = await fleet.call("POST", "/partner/api-keys", {"name": "K", "partnerId": "p", "scopes": ["plants:read"]})
    collect(key["key"])
    collect((await fleet.call("POST", f"/svc-esm/admin/enable?orgId={fleet.org}", who=fleet.root))["clientSecret"])
    await fleet.call("POST", "/trading/config", {"esmClientId": "us", "esmClientSecret": "an ESM's own secret"})
    await fleet.call("POST", "/notifications/push-tokens", {"token": TOKEN})
    secrets |= {"an ESM's own secret", TOKEN}
    text = json.dumps(await fleet.events(who=fleet.root, org=None))
    assert len(secrets) >= 12
    assert [secret for secret in secrets if json.dumps(secret)[1:-1] in text] == []


async def test_devices_commands_and_alerts_are_found_by_their_plant(fleet: Fleet) -> None:
    plant_id = await plant(fleet)
    await fleet.call("POST", f"/plants/{plant_id}/provision")
    devices = f"/plants/{plant_id}/sub-devices"
    new = {"externalId": "BAT1", "name": "Battery", "type": "BATTERY", "templateId": BATTERY}
    assert await fleet.changes("POST", devices, new) == [
        ("sub_device.created", {"externalId": "BAT1", "name": "Battery", "type": "BATTERY"})
    ]
    assert await fleet.changes("PATCH", f"{devices}/BAT1", {"name": "B"}) == [
        ("sub_device.changed", {"externalId": "BAT1", "name": ["Battery", "B"]})
    ]
    [action, *_] = [
        one for one in (await fleet.call("GET", f"/device-templates/{BATTERY}"))["actions"] if not one.get("params")
    ]
    command = {"action": action["action"]}
    once = {"headers": {"idempotency-key": "once"}}
    issued = [("command.issued", {"externalId": "BAT1", **command})]
    assert await fleet.changes("POST", f"{devices}/BAT1/commands", command, **once) == issued
    assert await fleet.changes("POST", f"{devices}/BAT1/commands", command, **once) == [], "a repeated request does nothing"
    [(event, details)] = await fleet.changes("POST", "/alert-rules", {**RULE, "plantId": plant_id})
    assert (event, details) == ("alert_rule.created", {"name": "High", "metric": "p"})
    [rule] = (await fleet.call("GET", "/alert-rules"))["data"]
    alerts = [uuid4(), uuid4()]
    for alert in alerts:
        await fleet.people.execute(
            "INSERT INTO alert (id, organization_id, plant_id, rule_id, severity, message, metric, value, measured_at)"
            " VALUES (%s, %s, %s, %s, 'WARNING', 'High', 'p', 2, now())",
            *(alert, fleet.org, plant_id, rule["id"]),
        )
    assert await fleet.changes("PATCH", f"/alerts/{alerts[0]}/acknowledge") == [("alert.acknowledged", {})]
    assert await fleet.changes("PATCH", f"/alerts/{alerts[0]}/acknowledge") == []
    assert await fleet.changes("PATCH", f"/alerts/{alerts[1]}/resolve") == [("alert.resolved", {})]
    assert await fleet.changes("PATCH", f"/alert-rules/{rule['id']}", {"threshold": 3, "enabled": False}) == [
        ("alert_rule.changed", {"threshold": [1.0, 3.0], "enabled": [True, False]})
    ]
    deleted = [("alert_rule.deleted", {"name": "High", "metric": "p"})]
    assert await fleet.changes("DELETE", f"/alert-rules/{rule['id']}") == deleted
    deleted = [("sub_device.deleted", {"externalId": "BAT1", "name": "B"})]
    assert await fleet.changes("DELETE", f"{devices}/BAT1") == deleted
    of_plant = [event["event"] for event in await fleet.events(f"&plantId={plant_id}")]
    assert of_plant == [
        *("plant.created", "plant.provisioned", "sub_device.created", "sub_device.changed", "command.issued"),
        *("alert_rule.created", "alert.acknowledged", "alert.resolved", "alert_rule.changed", "alert_rule.deleted"),
        "sub_device.deleted",
    ]
    assert len(await fleet.events(f"&subjectType=PLANT&subjectId={plant_id}")) == 2


async def test_groups_name_the_plants_that_joined_or_left(fleet: Fleet) -> None:
    one, two = await plant(fleet, "S1"), await plant(fleet, "S2")
    assert await fleet.changes("POST", "/plant-groups", {"name": "North"}) == [("plant_group.created", {"name": "North"})]
    [group] = (await fleet.call("GET", "/plant-groups"))["data"]
    path = f"/plant-groups/{group['id']}"
    assert await fleet.changes("PATCH", path, {"name": "South", "description": "x"}) == [
        ("plant_group.changed", {"name": ["North", "South"], "description": [None, "x"]})
    ]
    assert await fleet.changes("PATCH", path, {"name": "South"}) == []
    added = [("plant_group.plants_added", {"plants": 1, "plantIds": [one]})]
    assert await fleet.changes("POST", f"{path}/plants", {"plantIds": [one]}) == added
    added = [("plant_group.plants_added", {"plants": 1, "plantIds": [two]})]
    assert await fleet.changes("POST", f"{path}/plants", {"plantIds": [one, two]}) == added
    removed = [("plant_group.plants_removed", {"plants": 2, "plantIds": sorted([one, two])})]
    assert await fleet.changes("DELETE", f"{path}/plants", {"plantIds": [one, two]}) == removed
    assert await fleet.changes("DELETE", f"{path}/plants", {"plantIds": [one, two]}) == []
    assert await fleet.changes("DELETE", path) == [("plant_group.deleted", {"name": "South"})]


async def test_an_import_records_each_plant_and_a_refused_one_none(fleet: Fleet) -> None:
    text = {"headers": {"content-type": "text/csv"}}
    header = "name,serialNumber,type\n"
    file = header + "".join(f"P{number},S{number},GATEWAY\n" for number in range(300))
    await fleet.call("POST", "/plants/import", **text, content=file)
    assert (await fleet.call("GET", "/audit-events?event=plant.created"))["meta"]["total"] == 300
    answer = await fleet.people.call(
        "POST", "/plants/import", who=fleet.admin, org=fleet.org, **text, content=f"{header}A,A,GATEWAY\nB,S1,GATEWAY\n"
    )
    refused(answer, 400, "VALIDATION_ERROR")
    assert (await fleet.call("GET", "/audit-events?event=plant.created"))["meta"]["total"] == 300


async def test_a_moved_plant_is_recorded_in_both_organisations(fleet: Fleet) -> None:
    other = await fleet.people.person()
    target = (await fleet.people.organization(ORG_ADMIN=other)).id
    plant_id = await plant(fleet)
    await fleet.call("PATCH", f"/plants/{plant_id}", {"externalPlantId": "before"})
    changes = {"organizationId": str(target), "name": "Moved", "externalPlantId": "after", "metadata": {"a": 1}}
    await fleet.call("PATCH", f"/plants/{plant_id}", changes, who=fleet.root)
    left = await fleet.events(f"&plantId={plant_id}")
    came = await fleet.events(f"&plantId={plant_id}", who=other, org=target)
    assert [event["event"] for event in left] == ["plant.created", "plant.changed", "plant.moved"]
    assert left[1]["details"] == {"externalPlantId": [None, "before"]}
    assert [event["event"] for event in came] == ["plant.moved", "plant.changed"]
    assert came[1]["details"] == {"name": [None, "Moved"], "externalPlantId": [None, "after"], "metadata": "changed"}
    assert str(target) not in json.dumps(left)
    assert str(fleet.org) not in json.dumps(came)


async def test_a_move_that_changes_nothing_else_is_no_change(fleet: Fleet) -> None:
    other = await fleet.people.person()
    target = (await fleet.people.organization(ORG_ADMIN=other)).id
    plant_id = await plant(fleet)
    await fleet.call("PATCH", f"/plants/{plant_id}", {"externalPlantId": "before"})
    await fleet.call("PATCH", f"/plants/{plant_id}", {"organizationId": str(target)}, who=fleet.root)
    came = await fleet.events(f"&plantId={plant_id}", who=other, org=target)
    assert [event["event"] for event in came] == ["plant.moved"]


async def test_templates_sandbox_and_profiles_are_recorded(fleet: Fleet) -> None:
    as_root: dict[str, Any] = {"who": fleet.root, "org": None}
    meter = {"name": "M", "type": "METER", "signals": []}
    [(event, details)] = await fleet.changes("POST", "/device-templates", meter, **as_root)
    assert (event, details) == ("device_template.created", {"name": "M", "version": 1})
    [event] = await fleet.events("&event=device_template.created", **as_root)
    path = f"/device-templates/{event['subjectId']}"
    signals = [{"key": "p", "field": "p", "unit": "kW"}]
    assert await fleet.changes("PATCH", path, {"signals": signals}, **as_root) == [
        ("device_template.changed", {"signals": "changed", "version": [1, 2]})
    ]
    assert await fleet.changes("DELETE", path, **as_root) == [("device_template.deleted", {"name": "M", "version": 2})]
    client = (await fleet.call("POST", f"/svc-esm/admin/enable?orgId={fleet.org}", **as_root))["clientId"]
    simulated = {"clientId": client, "externalPlantId": "X"}
    made = [("sandbox_plant.created", {**simulated, "name": "S"})]
    assert await fleet.changes("POST", "/svc-esm/admin/plants", {**simulated, "name": "S"}, **as_root) == made
    [sandbox_plant] = await fleet.call("GET", "/svc-esm/admin/plants", **as_root)
    path = f"/svc-esm/admin/plants/{sandbox_plant['id']}"
    changed = [("sandbox_plant.changed", {**simulated, "changed": ["capacityKwh"]})]
    assert await fleet.changes("PATCH", path, {"capacityKwh": 5}, **as_root) == changed
    assert await fleet.changes("DELETE", path, **as_root) == [("sandbox_plant.deleted", {**simulated, "name": "S"})]
    profile = {"name": "Ada", "phone": "+43123456789"}
    assert await fleet.changes("PATCH", "/auth/me", profile) == [
        ("user.profile_changed", {"changed": "name"}),
        ("user.profile_changed", {"changed": "phone"}),
    ]
    assert await fleet.changes("PATCH", "/auth/me", profile) == [], "it is the same"
    chosen = {"organizationId": str(fleet.org)}
    assert await fleet.changes("PATCH", "/auth/default-org", chosen) == [("user.default_organization_changed", chosen)]
    assert await fleet.changes("PATCH", "/auth/default-org", chosen) == [], "it is the same"
    device = {"token": TOKEN, "platform": "ios"}
    registered = [("user.push_token_registered", {"platform": "ios"})]
    assert await fleet.changes("POST", "/notifications/push-tokens", device) == registered
    assert await fleet.changes("POST", "/notifications/push-tokens", device) == [], "at the app's next start"
    assert await fleet.changes("DELETE", f"/notifications/push-tokens/{TOKEN}") == [("user.push_token_deleted", {})]
    assert await fleet.changes("DELETE", f"/notifications/push-tokens/{TOKEN}") == []


async def test_plans_and_syncs_are_recorded(fleet: Fleet) -> None:
    plant_id = await plant(fleet)
    await fleet.call("PATCH", f"/plants/{plant_id}", {"externalPlantId": "X"})
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    esm = {"esmApiUrl": nowhere, "esmClientId": "us", "esmClientSecret": "an ESM's own secret"}
    await fleet.call("POST", "/trading/config", esm)
    assert await fleet.changes("POST", "/trading/plants/sync") == [("trading.sync_requested", {})]
    for path, event in (("config", "trading.plan_sent"), ("config/validate", "trading.plan_validated")):
        [(found, details)] = await fleet.changes("POST", f"/trading/plants/{plant_id}/{path}", {"timeConfigs": [BLOCK]})
        assert (found, set(details)) == (event, {"requestCode"})


async def test_a_change_that_fails_after_its_event_records_nothing(fleet: Fleet) -> None:
    """The event is in the transaction of the change: what the change's end undoes, it undoes too."""
    await fleet.people.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
    )
    await fleet.people.execute(
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON plant DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    body = {"name": "Plant", "serialNumber": "S1", "type": "GATEWAY"}
    answer = await fleet.people.call("POST", "/plants", body, who=fleet.admin, org=fleet.org)
    refused(answer, 500, "INTERNAL_SERVER_ERROR")
    assert await fleet.events("&event=plant.created") == []


@pytest.mark.parametrize(
    "query", ["subjectType=plant", "subjectId=5", "plantId=x", "actorType=ROBOT", "actorId=x", "event=&event=a", "kind=a"]
)
async def test_a_bad_filter_is_refused(fleet: Fleet, query: str) -> None:
    answer = await fleet.people.call("GET", f"/audit-events?{query}", who=fleet.admin, org=fleet.org)
    [detail] = refused(answer, 400, "VALIDATION_ERROR")
    assert detail.partition(":")[0].partition(".")[0] == query.partition("=")[0]
    many = "&".join(f"event=e{number}" for number in range(51))
    refused(await fleet.people.call("GET", f"/audit-events?{many}", who=fleet.admin, org=fleet.org), 400, "VALIDATION_ERROR")


ORGS, PLANTS, ACTORS = ([uuid4() for _ in range(2)] for _ in range(3))
KINDS = [Event.PLANT_CREATED, Event.PLANT_CHANGED, Event.SUB_DEVICE_CHANGED]
MOMENTS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute) for minute in range(40)]
FILTERS = st.builds(
    AuditFilter,
    events=st.none() | st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple),
    subject_type=st.none() | st.sampled_from([SubjectType.PLANT, SubjectType.SUB_DEVICE]),
    subject_id=st.none() | st.sampled_from([str(one) for one in PLANTS]),
    plant_id=st.none() | st.sampled_from(PLANTS),
    actor_type=st.none() | st.sampled_from([ActorType.USER, ActorType.API_KEY]),
    actor_id=st.none() | st.sampled_from([str(one) for one in ACTORS]),
    since=st.none() | st.sampled_from(MOMENTS),
    until=st.none() | st.sampled_from(MOMENTS),
)


def matches(event: AuditEvent, wanted: AuditFilter) -> bool:
    """Whether an event is one of those that a filter selects."""
    exact = ("subject_type", "subject_id", "plant_id", "actor_type", "actor_id")
    return (
        (wanted.events is None or event.event in wanted.events)
        and all(getattr(wanted, name) in (None, getattr(event, name)) for name in exact)
        and (wanted.since is None or event.created_at >= wanted.since)
        and (wanted.until is None or event.created_at < wanted.until)
    )


async def add_events(database: Database) -> list[AuditEvent]:
    """Records an event a minute, of all combinations in turn, and returns them, newest first."""
    async with database.transaction() as db:
        for number in range(len(MOMENTS)):
            plant_id = PLANTS[number % 2]
            subject = Subject.plant(plant_id) if number % 3 else Subject(SubjectType.SUB_DEVICE, uuid4(), plant_id)
            actor = Actor(ActorType.USER if number % 5 else ActorType.API_KEY, str(ACTORS[number // 2 % 2]))
            await record(db, KINDS[number % 3], actor, subject, organization_id=ORGS[number // 4 % 2])
        await db.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_unchanged")
        await db.execute(
            "UPDATE audit_event e SET created_at = n.at FROM (SELECT id, %s + (row_number() OVER (ORDER BY id) - 1)"
            " * interval '1 minute' AS at FROM audit_event) n WHERE n.id = e.id",
            (MOMENTS[0],),
        )
        await db.execute("ALTER TABLE audit_event ENABLE TRIGGER audit_event_unchanged")
        return (await list_events(db, everywhere(), AuditFilter(), Paging(1, 100))).data


def everywhere() -> PlatformScope:
    return PlatformScope(caller_of(uuid4()))


def test_every_combination_of_filters_selects_what_a_plain_comparison_does(database_url: str) -> None:
    with asyncio.Runner() as runner:
        opened = open_database(database_url, name="test")
        database = runner.run(opened.__aenter__())
        events = runner.run(add_events(database))
        assert len(events) == len(MOMENTS)

        async def found(db: Connection, scope: OrgScope | PlatformScope, wanted: AuditFilter) -> tuple[list[AuditEvent], int]:
            pages = [await list_events(db, scope, wanted, Paging(page, 7)) for page in range(1, 8)]
            return [event for page in pages for event in page.data], pages[0].meta.total

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(FILTERS, st.none() | st.sampled_from(ORGS))
        def compare(wanted: AuditFilter, org: UUID | None) -> None:
            async def select() -> tuple[list[AuditEvent], int]:
                scope = everywhere() if org is None else OrgScope(org, OrgRole.ORG_ADMIN, caller_of(uuid4()))
                async with database.transaction() as db:
                    return await found(db, scope, wanted)

            expected = [event for event in events if org in (None, event.organization_id) and matches(event, wanted)]
            assert runner.run(select()) == (expected, len(expected))

        try:
            compare()
        finally:
            runner.run(opened.__aexit__(None, None, None))
