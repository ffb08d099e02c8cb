"""Events about statuses and alerts: one for each change, with fixed bytes, also beside processes of the previous release."""

import json
import re
from datetime import UTC, datetime

import psycopg
import pytest

from gridfleet.domains.alerts.actions import acknowledge, resolve
from gridfleet.domains.plants.lifecycle import revoke_plant
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.presence.records import PlantSeen, record_presence, sweep_silent
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.builders.partner_site import PartnerSite, partner_site

AWKWARD = 'a"b\\c/\x01\x1f\x7f\b\f\n\r\té\u2028😀'
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(params=["with the triggers", "without the triggers"])
async def published(request: pytest.FixtureRequest, site: PartnerSite) -> PartnerSite:
    """A site whose events come from the code, whether the triggers for the previous release still exist or not."""
    if request.param == "without the triggers":
        await site.execute("ALTER TABLE plant DISABLE TRIGGER plant_status_told")
        await site.execute("ALTER TABLE alert DISABLE TRIGGER alert_told")
    return site


async def bodies(site: PartnerSite, kind: str) -> list[bytes]:
    """Return the bodies of the plant's events of a kind, in their order."""
    return [
        body
        for (body,) in await site.rows(
            f"SELECT body FROM partner_event WHERE kind = '{kind}' AND plant_id = %(plant)s AND organization_id = %(org)s"
            " AND api_key_id IS NULL ORDER BY id"
        )
    ]


async def see(site: PartnerSite, status: PlantStatus, reason: str | None = None) -> None:
    async with site.database.transaction() as db:
        await record_presence(db, [PlantSeen(site.plant.id, datetime.now(UTC), status, None, reason)], [])


async def take(site: PartnerSite, seconds_ago: float, soc: float) -> None:
    await site.plant.bench.take(site.plant.message(snapshot(ago(seconds_ago), {"soc": soc})))


async def test_each_change_of_a_status_is_one_event(published: PartnerSite) -> None:
    for reason in (None, "again"):
        await see(published, PlantStatus.ONLINE, reason)
    for _ in range(2):
        await see(published, PlantStatus.OFFLINE, "maintenance")
    await see(published, PlantStatus.ONLINE)
    await published.execute("UPDATE plant SET last_seen_at = now() - interval '1 hour'")
    for _ in range(2):
        async with published.database.transaction() as db:
            await sweep_silent(db)
    await see(published, PlantStatus.ONLINE)
    async with published.database.transaction() as db:
        await revoke_plant(db, operator(published.plant.organization_id), published.plant.id)

    events = [json.loads(body) for body in await bodies(published, "status")]
    assert [(event["status"], event.get("reason")) for event in events] == [
        ("ONLINE", None),
        ("OFFLINE", "maintenance"),
        ("ONLINE", None),
        ("OFFLINE", "silent"),
        ("ONLINE", None),
        ("OFFLINE", "decommissioned"),
    ]
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)


async def test_the_revocation_of_an_offline_plant_is_no_change_of_its_status(published: PartnerSite) -> None:
    async with published.database.transaction() as db:
        await revoke_plant(db, operator(published.plant.organization_id), published.plant.id)
    assert await bodies(published, "status") == []


async def test_each_change_of_an_alert_is_one_event(published: PartnerSite) -> None:
    organization_id = published.plant.organization_id
    await add_rule(published.database, organization_id)
    await add_rule(published.database, organization_id, name="Also low", auto_resolve=True)
    await take(published, 60, 5)
    raised = {alert.message.partition(":")[0]: alert.id for alert in await alerts_of(published.database, organization_id)}
    await take(published, 50, 50)
    for _ in range(2):
        async with published.database.transaction() as db:
            await acknowledge(db, operator(organization_id), raised["Low battery"])
    for _ in range(2):
        async with published.database.transaction() as db:
            await resolve(db, operator(organization_id), raised["Low battery"])

    events = [json.loads(body) for body in await bodies(published, "alert")]
    assert {(event["alertId"], event["status"]) for event in events[:2]} == {(str(one), "ACTIVE") for one in raised.values()}
    assert [(event["alertId"], event["status"]) for event in events[2:]] == [
        (str(raised["Also low"]), "RESOLVED"),
        (str(raised["Low battery"]), "ACKNOWLEDGED"),
        (str(raised["Low battery"]), "RESOLVED"),
    ]


async def test_an_alert_that_ends_in_the_batch_that_raises_it_is_two_events(published: PartnerSite) -> None:
    await add_rule(published.database, published.plant.organization_id, auto_resolve=True)
    site = published.plant
    await site.bench.take(site.message(snapshot(ago(60), {"soc": 5})), site.message(snapshot(ago(50), {"soc": 50})))
    events = [json.loads(body) for body in await bodies(published, "alert")]
    assert [event["status"] for event in events] == ["ACTIVE", "RESOLVED"]


async def test_the_bytes_of_the_events(published: PartnerSite) -> None:
    await see(published, PlantStatus.OFFLINE, AWKWARD)
    await see(published, PlantStatus.ONLINE)
    await add_rule(published.database, published.plant.organization_id, name=AWKWARD)
    await take(published, 5, 5)
    text = r"a\"b\\c/\u0001\u001f" + "\x7f" + r"\b\f\n\r\t" + "é\u2028😀"
    plant = published.plant.id
    [alert] = await alerts_of(published.database, published.plant.organization_id)

    offline, online = [body.decode() for body in await bodies(published, "status")]
    assert re.sub(TIME, "now", offline) == f'{{"siteId":"{plant}","status":"OFFLINE","time":"now","reason":"{text}"}}'
    assert re.sub(TIME, "now", online) == f'{{"siteId":"{plant}","status":"ONLINE","time":"now"}}'
    [raised] = [body.decode() for body in await bodies(published, "alert")]
    moment = f"{alert.updated_at:%Y-%m-%dT%H:%M:%S}.{alert.updated_at.microsecond // 1000:03}Z"
    assert raised == (
        f'{{"alertId" : "{alert.id}", "siteId" : "{plant}", "type" : "THRESHOLD_EXCEEDED", "severity" : "WARNING",'
        f' "status" : "ACTIVE", "message" : "{text}: soc of Plant is 5, below 10", "time" : "{moment}"}}'
    )


async def test_an_event_is_queued_if_a_partner_receives_it(published: PartnerSite) -> None:
    """As for measurements: enabled queues, and a live key that may see the plant."""
    for statement in (
        "UPDATE partner_queues SET enabled = false",
        "UPDATE partner_key SET allowed_plant_ids = '{}'",
        "UPDATE partner_key SET amqp_slug = NULL",
    ):
        await published.execute("UPDATE partner_queues SET enabled = true")
        await published.execute(statement)
        for status in (PlantStatus.ONLINE, PlantStatus.OFFLINE):
            await see(published, status)
    assert await bodies(published, "status") == []


async def test_changes_of_several_organisations_in_one_batch(published: PartnerSite) -> None:
    bench = published.plant.bench
    second, stranger = await partner_site(published.database, bench), await bench.plant()
    seen = [
        PlantSeen(plant.id, datetime.now(UTC), PlantStatus.ONLINE, None) for plant in (published.plant, second.plant, stranger)
    ]
    async with published.database.transaction() as db:
        await record_presence(db, seen, [])
    for site in (published, second):
        assert len(await bodies(site, "status")) == 1
    assert await published.rows("SELECT count(*) FROM partner_event") == [(2,)]


async def test_a_process_of_the_previous_release_beside_this_one_loses_no_event(site: PartnerSite) -> None:
    """It changes rows and relies on the triggers; its connections do not say that they publish events."""
    await see(site, PlantStatus.ONLINE)
    await add_rule(site.database, site.plant.organization_id)
    await take(site, 5, 5)
    async with await psycopg.AsyncConnection.connect(site.database.url) as previous:
        await previous.execute("UPDATE plant SET status = 'OFFLINE', status_reason = 'silent'")
        await previous.execute("UPDATE alert SET status = 'RESOLVED', resolved_at = now()")
    await see(site, PlantStatus.ONLINE)
    statuses = [json.loads(body)["status"] for body in await bodies(site, "status")]
    assert statuses == ["ONLINE", "OFFLINE", "ONLINE"]
    assert [json.loads(body)["status"] for body in await bodies(site, "alert")] == ["ACTIVE", "RESOLVED"]
