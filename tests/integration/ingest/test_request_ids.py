"""Each message of a batch has a request id of its own, which everything that follows from it carries."""

from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from gridfleet.domains.ingest.models import Delivery
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.db import Database
from gridfleet.protocol.partner_routes import CommandKind
from support.builders.accounts import add_member, add_user
from support.builders.alerting import add_rule, ago, snapshot
from support.builders.partner_site import PartnerSite, partner_site


@pytest.fixture
async def sites(database: Database) -> list[PartnerSite]:
    """Two organisations with a partner, a rule and an operator each, at one ingest."""
    first = await partner_site(database)
    sites = [first, await partner_site(database, first.plant.bench)]
    for site in sites:
        operator = await add_user(database)
        await add_member(database, site.plant.organization_id, operator.id, OrgRole.OPERATOR)
        await add_rule(database, site.plant.organization_id)
    return sites


async def causes(site: PartnerSite, query: str) -> set[str]:
    return {cause["request_id"] for (cause,) in await site.rows(query)}


def low(site: PartnerSite) -> Delivery:
    return site.plant.message(snapshot(ago(5), {"soc": 5}))


async def test_what_follows_from_a_message_carries_its_request_id(sites: list[PartnerSite]) -> None:
    deliveries = [low(site) for site in sites]
    with capture_logs() as lines, at_work("batch", {"request_id": "the batch"}):
        await sites[0].plant.bench.take(*deliveries)

    for site, delivery in zip(sites, deliveries, strict=True):
        of_alert = await causes(site, "SELECT cause FROM alert WHERE plant_id = %(plant)s")
        of_notification = await causes(
            site,
            "SELECT n.cause FROM notification_log n JOIN membership m USING (user_id) WHERE m.organization_id = %(org)s",
        )
        of_events = [
            await causes(site, f"SELECT cause FROM partner_event WHERE plant_id = %(plant)s AND kind = '{kind}'")
            for kind in ("telemetry", "alert", "status")
        ]
        assert [of_alert, of_notification, *of_events] == [{delivery.request_id}] * 5
        of_log = [line["request_id"] for line in lines if line.get("plant_id") == str(site.plant.id)]
        assert of_log == [delivery.request_id]
    assert deliveries[0].request_id != deliveries[1].request_id
    assert {UUID(delivery.request_id).version for delivery in deliveries} == {7}


async def test_an_acknowledgement_of_a_command_carries_its_request_id(sites: list[PartnerSite]) -> None:
    deliveries: list[Delivery] = []
    for site in sites:
        await site.send(CommandKind.SETPOINT, powerKw=1)
        ack: dict[str, Any] = {"commandId": str(await site.newest()), "status": "APPLIED", "time": ago(0).isoformat()}
        deliveries.append(site.plant.message(ack, channel="ack"))
    with at_work("batch", {"request_id": "the batch"}):
        await sites[0].plant.bench.take(*deliveries)

    for site, delivery in zip(sites, deliveries, strict=True):
        applied = "t.status = 'APPLIED' AND c.plant_id = %(plant)s"
        steps = f"SELECT t.cause FROM plant_command_transition t JOIN plant_command c ON c.id = t.command_id WHERE {applied}"
        assert await causes(site, steps) == {delivery.request_id}
        acks = (
            "SELECT cause FROM partner_event WHERE organization_id = %(org)s AND convert_from(body, 'UTF8') LIKE '%%APPLIED%%'"
        )
        assert await causes(site, acks) == {delivery.request_id}


async def test_the_last_message_that_reports_a_time_is_the_cause_of_an_alert(sites: list[PartnerSite]) -> None:
    site, moment = sites[0], ago(5)
    messages = [site.plant.message(snapshot(moment, {"soc": soc}), message_id=str(soc)) for soc in (50, 5)]
    await site.plant.bench.take(*messages)
    assert await causes(site, "SELECT cause FROM alert WHERE plant_id = %(plant)s") == {messages[1].request_id}


async def test_a_message_that_is_read_again_keeps_its_request_id(sites: list[PartnerSite]) -> None:
    bench, message = sites[0].plant.bench, low(sites[0])
    await bench.pipeline.prepare([message])
    before = message.request_id
    bench.pipeline.invalidate()
    await bench.take(message)
    assert await causes(sites[0], "SELECT cause FROM alert WHERE plant_id = %(plant)s") == {before}
