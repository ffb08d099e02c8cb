"""A plant that moves no longer obeys what partners of its former organisation had set, except an emergency stop."""

from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.vcp.site_queries import read_configuration, read_past
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite, add_key

HOUR = 3600


def administrator(organization_id: UUID) -> OrgScope:
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    return OrgScope(organization_id, OrgRole.ORG_ADMIN, caller)


async def move(site: PartnerSite, seller: UUID | None = None) -> UUID:
    """Move the plant from `seller`, or its first organisation, to a new one. Returns the new one's id."""
    buyer = (await add_organization(site.database)).id
    owner = administrator(seller or site.plant.organization_id)
    async with site.database.transaction() as db:
        await update_plant(db, owner, site.plant.id, PlantChanges(organization_id=buyer))
    await site.expire()
    return buyer


async def orders(site: PartnerSite, seconds: float = 1) -> list[tuple[str, dict[str, Any]]]:
    """Return type and content of the commands that wait for the plant after a run of the scheduler."""
    await site.issue_due(seconds)
    return [(kind, content) for kind, content, status in await site.commands() if status == "PENDING"]


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("command.mode", {"mode": "STANDBY", "expiresAt": soon(HOUR)}),
        ("command.site-setpoint", {"powerKw": 3}),
    ],
)
async def test_the_plant_returns_to_auto(site: PartnerSite, kind: str, members: dict[str, Any]) -> None:
    assert await site.send(kind, **members) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    buyer = await move(site)
    async with site.database.transaction() as db:
        assert (await read_configuration(db, administrator(buyer), site.plant.id, utc_now())).operating_mode == "AUTO"
    assert await orders(site) == [("MODE_CHANGE", {"mode": "AUTO"})]


async def test_auto_is_issued_again_until_the_plant_confirms_it(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await move(site)
    assert len(await orders(site)) == 1
    await site.expire(2 * 86_400)
    assert await orders(site, 2 * 86_400) == [("MODE_CHANGE", {"mode": "AUTO"})]
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=2 * 86_400)
    assert await orders(site, 4 * 86_400) == []


async def test_the_schedule_ends(site: PartnerSite) -> None:
    interval = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=7, intervals=[interval])
    await site.acknowledge_newest("APPLIED")
    await move(site)
    assert await orders(site) == [
        ("MODE_CHANGE", {"mode": "AUTO"}),
        ("SCHEDULE", {"schedule": {"scheduleId": None, "revision": None, "intervals": []}}),
    ]
    assert await site.site("schedule_id, schedule_active") == (None, False)


async def test_a_schedule_that_a_move_has_ended_is_not_that_of_a_plant_that_is_back(site: PartnerSite) -> None:
    interval = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=7, intervals=[interval])
    await site.acknowledge_newest("APPLIED")
    seller, set_at = administrator(site.plant.organization_id), utc_now()
    wrong = await move(site)
    async with site.database.transaction() as db:
        await update_plant(db, administrator(wrong), site.plant.id, PlantChanges(organization_id=seller.organization_id))
    async with site.database.transaction() as db:
        before, present = [await read_past(db, seller, site.plant.id, at, utc_now()) for at in (set_at, utc_now())]
    assert before.schedule is not None
    assert (present.schedule, present.schedule_set_at) == (None, None)


async def accept_plan(site: PartnerSite) -> None:
    """Insert a plan that the ESM has accepted."""
    await site.execute(
        "INSERT INTO trading_config_change (organization_id, plant_id, request_code, is_error, validate_only, config_snapshot,"
        " requested_by, sent_at, responded_at) VALUES (%(org)s, %(plant)s, gen_random_uuid(), false, false,"
        """ '{"timeConfigs": [], "version": 1}', gen_random_uuid(), now(), now())"""
    )


async def test_a_plan_that_the_former_organisations_esm_accepted_is_not_that_of_the_new_one(site: PartnerSite) -> None:
    await accept_plan(site)
    seller = administrator(site.plant.organization_id)
    async with site.database.transaction() as db:
        assert (await read_past(db, seller, site.plant.id, utc_now(), utc_now())).plan is not None
    buyer = administrator(await move(site))
    async with site.database.transaction() as db:
        assert (await read_past(db, buyer, site.plant.id, utc_now(), utc_now())).plan is None


@pytest.mark.parametrize("link", ["E2", None])
async def test_a_plan_for_the_former_plant_of_the_esm_is_in_force_until_the_link_changes(
    site: PartnerSite, link: str | None
) -> None:
    owner = administrator(site.plant.organization_id)
    for former in ("E0", "E1"):
        async with site.database.transaction() as db:
            await update_plant(db, owner, site.plant.id, PlantChanges(external_plant_id=former))
    await accept_plan(site)
    for changes in (PlantChanges(name="Renamed", external_plant_id="E1"), PlantChanges(external_plant_id=link)):
        before = utc_now()
        async with site.database.transaction() as db:
            assert (await read_past(db, owner, site.plant.id, before, utc_now())).plan is not None
            await update_plant(db, owner, site.plant.id, changes)
    async with site.database.transaction() as db:
        plans = [(await read_past(db, owner, site.plant.id, at, utc_now())).plan for at in (before, utc_now())]
    assert [plan is not None for plan in plans] == [True, False]


async def test_limits_and_fallback_end(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    await site.send("config.fallback", fallback={"mode": "STANDBY", "afterSeconds": HOUR})
    await site.acknowledge_newest("APPLIED")
    await move(site)
    [mode, (kind, content)] = await orders(site)
    assert mode == ("MODE_CHANGE", {"mode": "AUTO"})
    assert kind == "CONFIG"
    assert content["params"]["constraints"]["importLimitKw"] is None
    assert content["params"]["fallback"] == {"mode": None, "afterSeconds": None}


@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_fallback_ends_although_its_end_was_unconfirmed_when_new_limits_came(site: PartnerSite, is_sent: bool) -> None:
    """The command with the new limits does not bring the fallback."""
    await site.send("config.fallback", fallback={"mode": "STANDBY", "afterSeconds": HOUR})
    await site.acknowledge_newest("APPLIED")
    buyer = await move(site)
    if is_sent:
        await orders(site)
    await send_as(site, buyer, "config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    await site.expire(26 * HOUR)
    await site.issue_due(26 * HOUR)
    found = [content["params"] for kind, content, status in await site.commands() if (kind, status) == ("CONFIG", "PENDING")]
    assert [(one["constraints"]["importLimitKw"], one["fallback"]["mode"]) for one in found] == [(2, None)]


async def test_limits_end_although_the_plant_has_not_received_their_removal(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    await site.send("config.constraints", constraints={"importLimitKw": None})
    await move(site)
    assert [kind for kind, _ in await orders(site)] == ["MODE_CHANGE", "CONFIG"]


@pytest.mark.parametrize("is_sent", [False, True])
async def test_what_the_plant_has_not_ended_ends_after_the_next_move(site: PartnerSite, is_sent: bool) -> None:
    interval = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=7, intervals=[interval])
    await site.acknowledge_newest("APPLIED")
    await site.send("config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    wrong = await move(site)
    if is_sent:
        assert len(await orders(site)) == 3
    await move(site, wrong)
    assert [kind for kind, _ in await orders(site)] == ["MODE_CHANGE", "CONFIG", "SCHEDULE"]


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
async def test_limits_that_the_plant_keeps_are_ended_when_it_connects(site: PartnerSite, answer: str) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    await move(site)
    await orders(site)
    limits = await site.newest()
    await site.acknowledge({limits: answer})
    assert [kind for kind, _ in await orders(site)] == ["MODE_CHANGE"]
    await site.acknowledge({}, connects=True)
    assert [kind for kind, _ in await orders(site, 31)] == ["MODE_CHANGE", "CONFIG"]


async def test_an_emergency_stop_holds_until_the_new_organisation_ends_it(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 2})
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("APPLIED")
    buyer = await move(site)
    async with site.database.transaction() as db:
        configuration = await read_configuration(db, administrator(buyer), site.plant.id, utc_now())
    assert (configuration.operating_mode, configuration.constraints.import_limit_kw) == ("EMERGENCY_STOP", None)
    assert await orders(site) == [], "the plant would refuse everything except AUTO"


async def send_as(site: PartnerSite, buyer: UUID, kind: str, **members: Any) -> None:
    """Send a command of a partner of the new organisation."""
    [(slug,)] = await site.rows(
        "SELECT o.slug FROM organization o JOIN plant p ON p.organization_id = o.id WHERE p.id = %(plant)s"
    )
    sender = await add_key(site.plant.bench, buyer, slug)
    assert await site.take(order(kind, site.plant.id, slug=slug, **members), sender=sender) == "ACCEPTED"


async def mode_after_refusal(site: PartnerSite, answer: str, **members: Any) -> str:
    """Move the plant. Return its mode after it has refused a mode of the new organisation's partner."""
    buyer = await move(site)
    await send_as(site, buyer, "command.mode", **members)
    await site.acknowledge_newest(answer)
    async with site.database.transaction() as db:
        return (await read_configuration(db, administrator(buyer), site.plant.id, utc_now())).operating_mode


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
async def test_an_emergency_stop_that_the_plant_does_not_end_holds(site: PartnerSite, answer: str) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("APPLIED")
    assert await mode_after_refusal(site, answer, mode="AUTO") == "EMERGENCY_STOP"
    set_by = await site.site("override_set_by")
    assert set_by == (str(site.sender.key.id),)


@pytest.mark.parametrize("ends", [["AUTO"], ["AUTO", "STANDBY"]])
async def test_what_the_former_organisation_had_ended_does_not_return(site: PartnerSite, ends: list[str]) -> None:
    for mode in ("EMERGENCY_STOP", *ends):
        assert await site.send("command.mode", mode=mode, expiresAt=soon(HOUR)) == "ACCEPTED"
        await site.acknowledge_newest("APPLIED")
    assert await mode_after_refusal(site, "REJECTED", mode="SELF_CONSUMPTION", expiresAt=soon(HOUR)) == "AUTO"


async def test_an_emergency_stop_that_the_plant_has_not_confirmed_is_issued_again(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await move(site)
    assert await orders(site) == [("EMERGENCY", {"mode": "EMERGENCY_STOP"})]


async def test_a_plant_that_has_not_left_a_stop_gets_auto_before_a_mode_of_the_new_organisation(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="AUTO")
    buyer = await move(site)
    await orders(site)
    await send_as(site, buyer, "command.mode", mode="STANDBY", expiresAt=soon(72 * HOUR))
    await site.expire(48 * HOUR)
    modes = [content["mode"] for _, content in await orders(site, 48 * HOUR)]
    assert modes == ["AUTO", "STANDBY"], "the plant would refuse everything except AUTO"


async def test_a_plant_that_no_partner_controlled_gets_no_command(site: PartnerSite) -> None:
    await move(site)
    assert await orders(site) == []
    assert await site.site("plant_id") is None
