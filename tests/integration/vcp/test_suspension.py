"""Steps of a schedule and modes wait while their plant is suspended."""

import pytest

from gridfleet.api.plants.lifecycle import reactivate_plant
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.ids import new_id
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite

HOUR = 3600


async def set_lifecycle(site: PartnerSite, status: str) -> None:
    await site.execute("UPDATE plant SET lifecycle_status = %(status)s WHERE id = %(plant)s", {"status": status})


async def setpoints(site: PartnerSite) -> list[float]:
    """Return the powers of the steps that were issued, in their order."""
    return [content["powerKw"] for kind, content, _ in await site.commands() if kind == "SITE_SETPOINT"]


@pytest.fixture
async def scheduled(site: PartnerSite) -> PartnerSite:
    """The site with a schedule that the plant knows: 2 kW for an hour, then 3 kW."""
    steps = [
        {"start": soon(60), "durationSeconds": HOUR, "powerKw": 2},
        {"start": soon(60 + HOUR), "durationSeconds": HOUR, "powerKw": 3},
    ]
    assert await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    return site


async def test_the_current_step_is_issued_when_the_plant_is_reactivated(scheduled: PartnerSite) -> None:
    await set_lifecycle(scheduled, "SUSPENDED")
    assert await scheduled.issue_due(120) == 0
    await set_lifecycle(scheduled, "ACTIVE")
    await scheduled.issue_due(60 + HOUR / 2)
    assert await setpoints(scheduled) == [2]
    [(left,)] = await scheduled.rows(
        "SELECT (instruction #>> '{params,durationSeconds}')::int FROM plant_command WHERE type = 'SITE_SETPOINT'"
    )
    assert abs(left - HOUR / 2) < 5


async def test_a_step_that_ended_during_the_suspension_is_skipped(scheduled: PartnerSite) -> None:
    await set_lifecycle(scheduled, "SUSPENDED")
    await scheduled.issue_due(120)
    await scheduled.issue_due(120 + HOUR)
    await set_lifecycle(scheduled, "ACTIVE")
    await scheduled.issue_due(180 + HOUR)
    assert await setpoints(scheduled) == [3]


async def test_the_schedule_of_a_suspended_plant_ends_in_time(scheduled: PartnerSite) -> None:
    await set_lifecycle(scheduled, "SUSPENDED")
    await scheduled.issue_due(120 + 2 * HOUR)
    assert await scheduled.site("schedule_active") == (False,)
    assert await scheduled.rows("SELECT FROM vcp_interval") == []


async def test_a_stop_that_waits_for_a_connection_is_issued_again_when_the_plant_is_reactivated(site: PartnerSite) -> None:
    """The plant may have connected in the meantime: what a suspended plant sends is discarded."""
    assert await site.send("command.mode", mode="EMERGENCY_STOP") == "ACCEPTED"
    await site.acknowledge_newest("FAILED")
    await set_lifecycle(site, "SUSPENDED")
    user = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", False, None)
    async with site.database.transaction() as db:
        await reactivate_plant(OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, user), db, site.plant.id)
    await site.issue_due(1)
    assert [status for kind, _, status in await site.commands() if kind == "EMERGENCY"] == ["FAILED", "PENDING"]
