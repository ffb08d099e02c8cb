"""Orders, acknowledgements, moves and the scheduler at the same time at one site."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgements
from gridfleet.domains.plants.commands.models import Acknowledgement
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.domains.vcp.intake import take_command
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.domains.vcp.scheduler import issue_due_commands
from gridfleet.domains.vcp.sites.due.store import DueInterval, Selection, claim_due_intervals
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import AckStatus
from support.builders.accounts import add_organization
from support.builders.interleaving import pause_reads, until_blocked
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite


def step(start: float, length: int = 900, power: float = 1) -> dict[str, Any]:
    return {"start": soon(start), "durationSeconds": length, "powerKw": power}


def written(site: PartnerSite, kind: str, **members: Any) -> PartnerMessage:
    return order(kind, site.plant.id, slug=site.sender.key.slug, **members)


async def take(db: Connection, site: PartnerSite, message: PartnerMessage) -> None:
    assert await take_command(db, site.sender, message, datetime.now(UTC), 600) == "ACCEPTED"


async def steer_paused(site: PartnerSite, seconds: float) -> int:
    """Run the scheduler; it waits while it reads intervals."""
    async with site.database.transaction() as db:
        await db.execute("SET LOCAL test.pause = 'on'")
        return await issue_due_commands(db, datetime.now(UTC) + timedelta(seconds=seconds))


async def test_a_schedule_accepted_while_the_one_before_ends_holds(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-900, 600)])
    await pause_reads(site.database, "vcp_interval")
    async with site.database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(1)")
        ending = asyncio.create_task(steer_paused(site, 0))
        await until_blocked(site.database)
        await take(db, site, written(site, "schedule.set", scheduleId="s", revision=2, intervals=[step(600)]))
    await ending
    assert await site.site("schedule_revision, schedule_active") == (2, True)
    assert len(await site.rows("SELECT FROM vcp_interval")) == 1


async def test_a_schedule_accepted_while_another_order_waits_for_the_site_holds(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={})
    limits = written(site, "config.constraints", constraints={"importLimitKw": 9})
    async with site.database.transaction() as db:
        await take(db, site, written(site, "schedule.set", scheduleId="s", revision=1, intervals=[step(600)]))
        other = asyncio.create_task(site.take(limits))
        await until_blocked(site.database)
    assert await other == "ACCEPTED"
    assert await site.site("schedule_active, constraints->>'importLimitKw'") == (True, "9.0")


async def test_a_step_is_claimed_with_the_limits_that_are_accepted_at_this_moment(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, 900, 8)])
    await pause_reads(site.database, "vcp_interval")

    async def claim() -> list[DueInterval]:
        async with site.database.transaction() as db:
            await db.execute("SET LOCAL test.pause = 'on'")
            return await claim_due_intervals(db, datetime.now(UTC), 10, Selection())

    async with site.database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(1)")
        claiming = asyncio.create_task(claim())
        await until_blocked(site.database)
        await take(db, site, written(site, "config.constraints", constraints={"importLimitKw": 5}))
    assert [one.constraints.import_limit_kw for one in await claiming] == [5]


async def test_a_mode_refused_while_another_is_accepted_leaves_the_new_one(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(600))
    standby = await site.newest()
    async with site.database.transaction() as db:
        await take(db, site, written(site, "command.mode", mode="CHARGE", expiresAt=soon(600)))
        refusing = asyncio.create_task(site.acknowledge({standby: "REJECTED"}))
        await until_blocked(site.database)
    await refusing
    assert await site.site("override_mode") == ("CHARGE",)
    await site.acknowledge({await site.newest(): "REJECTED"})
    assert await site.site("override_mode") == (None,), "the plant has refused both"


async def test_a_mode_accepted_while_the_one_before_is_refused_finds_it_gone(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(600))
    acks = [Acknowledgement(await site.newest(), site.plant.id, AckStatus.REJECTED, datetime.now(UTC))]
    charge = written(site, "command.mode", mode="CHARGE", expiresAt=soon(600))
    async with site.database.transaction() as db:
        await apply_acknowledgements(db, acks, (), datetime.now(UTC), follow_commands)
        taking = asyncio.create_task(site.take(charge))
        await until_blocked(site.database)
    assert await taking == "ACCEPTED"
    assert await site.site("override_mode") == ("CHARGE",)
    assert await site.rows("SELECT kind FROM vcp_unconfirmed") == [("MODE",)]


async def test_an_override_accepted_while_the_one_before_ends_holds(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(600))
    async with site.database.transaction() as db:
        await take(db, site, written(site, "command.mode", mode="CHARGE", expiresAt=soon(6000)))
        assert await site.issue_due(601) == 0, "the site is locked"
    assert await site.issue_due(602) == 0
    assert await site.site("override_mode") == ("CHARGE",)


async def test_an_answer_and_a_move_do_not_wait_for_each_other(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(600))
    acks = [Acknowledgement(await site.newest(), site.plant.id, AckStatus.REJECTED, datetime.now(UTC))]
    buyer = await add_organization(site.database)
    root = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    seller = OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, root)

    async def move() -> None:
        async with site.database.transaction() as db:
            await update_plant(db, seller, site.plant.id, PlantChanges(organization_id=buyer.id))

    async with site.database.transaction() as db:
        steps = await apply_acknowledgements(db, acks, (), datetime.now(UTC), None)
        moving = asyncio.create_task(move())
        await until_blocked(site.database)
        await follow_commands(db, steps)
    await moving
    assert (await site.log())[0][:2] == ("REJECTED", "REJECTED")
    assert await site.site("override_mode, override_command_id") == (None, None), "nothing of the old organisation is left"
