"""A plant that moves to another organisation leaves the orders of the old one behind."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.plants.errors import SubDeviceNotFound
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.domains.vcp.intake import take_command
from gridfleet.domains.vcp.scheduler import issue_due_commands
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.interleaving import until_blocked
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite
from support.clients.commands_at_work import issue

YEARS = 3 * 365 * 86_400


async def move(db: Connection, site: PartnerSite, to: UUID) -> None:
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    org = OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, caller)
    await update_plant(db, org, site.plant.id, PlantChanges(organization_id=to))


async def moved(site: PartnerSite, to: UUID) -> None:
    async with site.database.transaction() as db:
        await move(db, site, to)


async def expire(site: PartnerSite) -> None:
    async with site.database.transaction() as db:
        await expire_due(db, datetime.now(UTC), follow_commands)


@pytest.fixture
async def buyer(site: PartnerSite) -> UUID:
    """The organisation that the plant moves to."""
    return (await add_organization(site.database)).id


@pytest.mark.parametrize("order_of", [{"mode": "STANDBY", "expiresAt": soon(YEARS)}, {"mode": "EMERGENCY_STOP"}])
async def test_no_waiting_order_of_the_old_organisation_reaches_a_plant_that_moved(
    site: PartnerSite, buyer: UUID, order_of: dict[str, str]
) -> None:
    assert await site.send("command.mode", **order_of) == "ACCEPTED"
    device_command = await issue(site.plant)

    await moved(site, buyer)

    assert await site.send_commands() == []
    await expire(site)
    assert await site.log() == [("EXPIRED", "EXPIRED", None, True)]
    assert [status for _, _, status in await site.commands()] == ["EXPIRED", "EXPIRED"]
    assert device_command not in await site.send_commands(seconds=300)


async def test_what_the_plant_had_received_ends_too(site: PartnerSite, buyer: UUID) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    await site.acknowledge_newest("RECEIVED")
    await moved(site, buyer)
    await expire(site)
    assert [status for _, _, status in await site.commands()] == ["EXPIRED"]
    assert await site.rows("SELECT reason->>'code' FROM plant_command") == [("PLANT_MOVED",)]


async def test_a_partner_s_command_waits_for_a_plant_a_day_at_most(site: PartnerSite) -> None:
    device_order = {"action": "stop", "expiresAt": soon(YEARS)}
    for kind, members in (
        ("command.site-setpoint", {"powerKw": 1, "expiresAt": soon(YEARS)}),
        ("command.device.BAT1", device_order),
        ("command.mode", {"mode": "STANDBY", "expiresAt": soon(YEARS)}),
        ("config.constraints", {"constraints": {}, "expiresAt": soon(YEARS)}),
    ):
        assert await site.send(kind, **members) == "ACCEPTED"
    lives = await site.rows("SELECT expires_at - issued_at FROM plant_command")
    assert len(lives) == 4
    assert {life for (life,) in lives} == {timedelta(days=1)}
    [(ends,)] = await site.rows("SELECT override_expires_at - now() > interval '1000 days' FROM vcp_site")
    assert ends, "the mode holds until its own end"


async def test_a_step_of_weeks_is_a_command_of_a_day(site: PartnerSite) -> None:
    week = {"start": soon(-60), "durationSeconds": 7 * 86_400, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[week])
    assert await site.issue_due() == 1
    [(life,)] = await site.rows("SELECT expires_at - issued_at FROM plant_command WHERE type = 'SITE_SETPOINT'")
    assert life == timedelta(days=1)


async def test_an_order_taken_while_the_plant_moves_ends_with_the_move(site: PartnerSite, buyer: UUID) -> None:
    await site.send("config.constraints", constraints={})
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1, expiresAt=soon(3600))
    async with site.database.transaction() as db:
        assert await take_command(db, site.sender, message, datetime.now(UTC), 600) == "ACCEPTED"
        moving = asyncio.create_task(moved(site, buyer))
        await until_blocked(site.database)
    await moving
    assert await site.send_commands(seconds=1) == []


async def test_an_order_that_comes_while_the_plant_moves_finds_it_gone(site: PartnerSite, buyer: UUID) -> None:
    await site.send("config.constraints", constraints={})
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
    async with site.database.transaction() as db:
        await move(db, site, buyer)
        taking = asyncio.create_task(site.take(message))
        await until_blocked(site.database)
    assert await taking == "REJECTED"
    assert (await site.log())[-1][2] == "SITE_UNKNOWN"
    assert await site.send_commands(seconds=1) == []


async def test_a_plant_that_moves_and_the_steps_of_its_schedule_do_not_wait_for_each_other(
    site: PartnerSite, buyer: UUID
) -> None:
    step = {"start": soon(-60), "durationSeconds": 900, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    async with site.database.transaction() as db:
        assert await issue_due_commands(db, datetime.now(UTC)) == 1
        moving = asyncio.create_task(moved(site, buyer))
        await until_blocked(site.database)
        assert await issue_due_commands(db, datetime.now(UTC)) == 0
    await moving
    assert await site.send_commands(seconds=1) == []


async def test_a_site_whose_plant_is_being_changed_is_passed_over(site: PartnerSite) -> None:
    step = {"start": soon(-60), "durationSeconds": 900, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    async with site.database.transaction() as db:
        await db.execute("SELECT FROM plant WHERE id = %s FOR UPDATE", (site.plant.id,))
        async with asyncio.timeout(5):
            assert await site.issue_due() == 0
    assert await site.issue_due() == 1


async def test_a_command_to_a_device_that_is_issued_while_the_plant_moves_is_refused(site: PartnerSite, buyer: UUID) -> None:
    async with site.database.transaction() as db:
        await move(db, site, buyer)
        issuing = asyncio.create_task(issue(site.plant))
        await until_blocked(site.database)
    with pytest.raises(SubDeviceNotFound):
        await issuing
    assert await site.commands() == []
