"""The log entries of what is in force at a site outlive the retention of commands: refusals of later commands read them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.vcp.retention import delete_commands
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite, add_key

HOUR = 3600


async def apply_and_age(site: PartnerSite, kind: str, **members: Any) -> None:
    """Send a command that the plant applies, and run the retention when all commands are too old."""
    assert await site.send(kind, **members) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    await delete_commands(site.database, datetime.now(UTC) + timedelta(seconds=1))


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
async def test_an_emergency_stop_holds_when_the_plant_refuses_auto(site: PartnerSite, answer: str) -> None:
    await apply_and_age(site, "command.mode", mode="EMERGENCY_STOP")
    await site.send("command.mode", mode="AUTO")
    await site.acknowledge_newest(answer)
    assert await site.site("override_mode") == ("EMERGENCY_STOP",)
    await site.acknowledge({}, connects=True)
    await site.issue_due(1)
    assert {content["mode"] for _, content, status in await site.commands() if status == "PENDING"} <= {"EMERGENCY_STOP"}


@pytest.mark.parametrize(("mode", "successor"), [("EMERGENCY_STOP", "AUTO"), ("STANDBY", "CHARGE"), ("STANDBY", "AUTO")])
async def test_a_mode_is_kept_until_the_plant_answers_the_next(site: PartnerSite, mode: str, successor: str) -> None:
    def members(mode: str) -> dict[str, str]:
        return {"mode": mode} | ({} if mode in ("AUTO", "EMERGENCY_STOP") else {"expiresAt": soon(HOUR)})

    await site.send("command.mode", mode="BACKUP", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", **members(mode))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", **members(successor))
    await delete_commands(site.database, datetime.now(UTC) + timedelta(seconds=1))
    assert len(await site.log()) == 2, "the mode that holds if the plant refuses its successor, and the successor"
    await site.acknowledge_newest("REJECTED")
    assert await site.site("override_mode") == (mode,)


async def test_a_mode_is_deleted_once_the_plant_has_the_next(site: PartnerSite) -> None:
    for mode in ("STANDBY", "CHARGE"):
        await site.send("command.mode", mode=mode, expiresAt=soon(HOUR))
        await site.acknowledge_newest("APPLIED")
    await delete_commands(site.database, datetime.now(UTC) + timedelta(seconds=1))
    assert len(await site.log()) == 1


async def test_a_schedule_is_kept_until_the_plant_answers_the_next(site: PartnerSite) -> None:
    async def send(revision: int) -> None:
        intervals = [{"start": soon(60), "durationSeconds": HOUR, "powerKw": revision}]
        assert await site.send("schedule.set", scheduleId="s", revision=revision, intervals=intervals) == "ACCEPTED"

    await send(1)
    await site.acknowledge_newest("APPLIED")
    await send(2)
    await delete_commands(site.database, datetime.now(UTC) + timedelta(seconds=1))
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_active, schedule_revision") == (True, 1)


async def test_an_emergency_stop_holds_at_a_plant_that_has_moved(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("APPLIED")
    buyer = await add_organization(site.database)
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    seller = OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, caller)
    async with site.database.transaction() as db:
        await update_plant(db, seller, site.plant.id, PlantChanges(organization_id=buyer.id))
    await delete_commands(site.database, datetime.now(UTC) + timedelta(seconds=1))
    sender = await add_key(site.plant.bench, buyer.id, buyer.slug)
    message = order("command.mode", site.plant.id, slug=buyer.slug, mode="AUTO")
    assert await site.take(message, sender=sender) == "ACCEPTED"
    await site.acknowledge_newest("FAILED")
    assert await site.site("override_mode") == ("EMERGENCY_STOP",)


async def test_a_mode_holds_when_the_plant_refuses_the_next(site: PartnerSite) -> None:
    await apply_and_age(site, "command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(HOUR))
    await site.acknowledge_newest("REJECTED")
    await site.issue_due(1)
    assert await site.site("override_mode") == ("STANDBY",)
    assert [content["mode"] for _, content, _ in await site.commands()] == ["CHARGE"], "the plant still has STANDBY"


async def test_a_schedule_holds_when_the_plant_refuses_the_next(site: PartnerSite) -> None:
    step = {"start": soon(60), "durationSeconds": HOUR, "powerKw": 2}
    await apply_and_age(site, "schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.send("schedule.set", scheduleId="t", revision=1, intervals=[step])
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_id, schedule_active") == ("s", True)


async def test_what_is_no_longer_in_force_is_deleted(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await apply_and_age(site, "command.mode", mode="AUTO")
    assert await site.log() == []
