"""Where setpoints, steps of the schedule and modes meet: one is accepted when another is due, or ends while another holds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite


async def sent_in_order(site: PartnerSite) -> list[Any]:
    """Return the mode or power of each command to the plant."""
    return [content.get("mode", content.get("powerKw")) for _, content, _ in await site.commands()]


@pytest.mark.parametrize("seconds", [0, 0.0005, 0.3])
async def test_a_setpoint_comes_after_the_step_that_began_before_it(site: PartnerSite, seconds: float) -> None:
    start = datetime.now(UTC) + timedelta(seconds=60)
    step = {"start": start.isoformat(), "durationSeconds": 900, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    assert await site.send("command.site-setpoint", now=start + timedelta(seconds=seconds), powerKw=5) == "ACCEPTED"
    await site.issue_due(now=start + timedelta(seconds=1))
    assert await sent_in_order(site) == [None, 2, 5]


@pytest.mark.parametrize("seconds", [0, 0.0005, 0.3])
async def test_a_setpoint_comes_after_the_end_of_the_mode_that_held_before(site: PartnerSite, seconds: float) -> None:
    end = datetime.now(UTC) + timedelta(seconds=60)
    await site.send("command.mode", mode="STANDBY", expiresAt=end.isoformat())
    await site.acknowledge_newest("APPLIED")
    at = end + timedelta(seconds=seconds)
    assert await site.send("command.site-setpoint", now=at, powerKw=5, durationSeconds=600) == "ACCEPTED"
    await site.issue_due(now=end + timedelta(seconds=1))
    assert await sent_in_order(site) == ["STANDBY", "AUTO", 5]
    assert await site.site("setpoint_ends_at") == (at + timedelta(seconds=600),)


async def test_a_setpoint_during_a_mode_leaves_the_step_for_the_end_of_the_mode(site: PartnerSite) -> None:
    step = {"start": soon(-60), "durationSeconds": 900, "powerKw": 2}
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(300))
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    assert await site.send("command.site-setpoint", powerKw=5) == "ACCEPTED"
    await site.issue_due()
    assert await sent_in_order(site) == ["STANDBY", None, 5]
    await site.issue_due(301)
    assert await sent_in_order(site) == ["STANDBY", None, 5, "AUTO", 2]


async def test_a_setpoint_comes_after_the_mode_that_replaces_one_that_failed(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(300))
    await site.send_commands()
    await site.acknowledge_newest("FAILED")
    assert await site.send("command.site-setpoint", powerKw=5) == "ACCEPTED"
    sent = await site.send_commands()
    await site.issue_due(1)
    sent += await site.send_commands(1) + await site.send_commands(2)
    contents: dict[Any, Any] = dict(await site.rows("SELECT id, instruction FROM plant_command"))
    assert [contents[one].get("mode", contents[one].get("powerKw")) for one in sent] == ["AUTO", 5]


@pytest.mark.parametrize("seconds", [900, None])
async def test_a_setpoint_that_the_plant_has_comes_again_after_the_mode_that_replaces_one_that_failed(
    site: PartnerSite, seconds: int | None
) -> None:
    await begin_step(site)
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    failed = await site.newest()
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=seconds)
    await site.send_commands()
    await site.send_commands()
    await site.acknowledge({failed: "FAILED", await site.newest(): "APPLIED"})
    await site.issue_due(10)
    sent = await site.send_commands(10) + await site.send_commands(11)
    contents: dict[Any, Any] = dict(await site.rows("SELECT id, instruction FROM plant_command"))
    assert [contents[one].get("mode", contents[one].get("powerKw")) for one in sent] == ["AUTO", 5]
    assert await site.site("setpoint_command_id") == (sent[1],)
    await site.acknowledge(dict.fromkeys(sent, "APPLIED"), seconds=12)
    assert await site.issue_due(600) == 0, "the setpoint has replaced the step"
    await site.issue_due(905)
    rest = {one.get("powerKw"): one.get("params", {}).get("durationSeconds") for _, one, _ in (await site.commands())[-2:]}
    if seconds is None:
        assert rest[5] is None
    else:
        assert 885 < rest[5] <= 890, "what is left of the setpoint"
        assert 2600 < rest[2] < 2650, "the step goes on after the setpoint"


async def test_a_setpoint_that_waits_for_the_plant_comes_once_after_a_mode_that_failed(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    await site.send_commands()
    failed = await site.newest()
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=900)
    await site.acknowledge({failed: "FAILED"})
    await site.issue_due(1)
    assert await sent_in_order(site) == ["STANDBY", "AUTO", 5]


async def test_a_refused_mode_does_not_leave_the_plant_in_the_mode_that_has_just_ended(site: PartnerSite) -> None:
    end = datetime.now(UTC) + timedelta(seconds=60)
    await site.send("command.mode", mode="CHARGE", powerKw=3, expiresAt=end.isoformat())
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", now=end + timedelta(seconds=0.3), mode="DISCHARGE", expiresAt=soon(600))
    await site.issue_due(now=end + timedelta(seconds=1))
    await site.acknowledge({await site.newest(): "REJECTED"}, now=end + timedelta(seconds=1.5))
    await site.issue_due(now=end + timedelta(seconds=2))
    assert await sent_in_order(site) == ["CHARGE", "DISCHARGE", "AUTO"]


async def begin_step(site: PartnerSite) -> None:
    """Set a schedule with one step of an hour that has just begun. The plant has applied both."""
    step = {"start": soon(-60), "durationSeconds": 3600, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    await site.acknowledge_newest("APPLIED")


async def test_the_step_goes_on_after_a_setpoint_with_a_duration(site: PartnerSite) -> None:
    await begin_step(site)
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=300)
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(299)
    assert await sent_in_order(site) == [None, 2, 5]
    for seconds in (303, 304, 600):
        await site.issue_due(seconds)
        assert await sent_in_order(site) == [None, 2, 5, 2], seconds
    assert 3230 < (await site.commands())[-1][1]["params"]["durationSeconds"] <= 3240, "the rest of the hour"
    await site.acknowledge_newest("APPLIED")
    assert await site.issue_due(1200) == 0


async def test_the_step_does_not_interrupt_setpoints_that_follow_each_other(site: PartnerSite) -> None:
    await begin_step(site)
    now = datetime.now(UTC)
    for minute in range(3):
        at = now + timedelta(minutes=minute, seconds=minute * 0.5)
        assert await site.send("command.site-setpoint", now=at, powerKw=5, durationSeconds=60) == "ACCEPTED"
        await site.acknowledge_newest("APPLIED")
        await site.issue_due(now=at + timedelta(seconds=60.4))
    assert await sent_in_order(site) == [None, 2, 5, 5, 5]


async def test_a_setpoint_without_a_duration_replaces_the_rest_of_the_step(site: PartnerSite) -> None:
    await begin_step(site)
    await site.send("command.site-setpoint", powerKw=5)
    await site.acknowledge_newest("APPLIED")
    assert await site.issue_due(1200) == 0


async def test_a_step_that_replaced_a_setpoint_is_not_sent_again_at_its_end(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=300)
    await site.acknowledge_newest("APPLIED")
    await begin_step(site)
    assert await site.issue_due(303) == 0


async def test_a_setpoint_that_ends_during_a_mode_leaves_the_step_for_the_end_of_the_mode(site: PartnerSite) -> None:
    await begin_step(site)
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=300)
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(600))
    await site.issue_due(303)
    assert await sent_in_order(site) == [None, 2, 5, "STANDBY"]
    await site.issue_due(601)
    await site.issue_due(602)
    assert await sent_in_order(site) == [None, 2, 5, "STANDBY", "AUTO", 2]


async def test_a_setpoint_lasts_from_its_arrival_at_the_plant(site: PartnerSite) -> None:
    """The plant counts from there. A command may wait for it for hours; the step followed in the middle of the setpoint."""
    await begin_step(site)
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=300)
    arrival = datetime.now(UTC) + timedelta(seconds=200)
    await site.acknowledge({await site.newest(): "APPLIED"}, now=arrival)
    end = arrival + timedelta(seconds=300)
    assert await site.site("setpoint_ends_at") == (end,)
    assert await site.issue_due(now=end - timedelta(seconds=1)) == 0
    await site.issue_due(now=end + timedelta(seconds=3))
    assert await sent_in_order(site) == [None, 2, 5, 2]


async def test_an_acknowledged_setpoint_does_not_change_the_end_of_a_later_one(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=300)
    first = await site.newest()
    await site.send("command.site-setpoint", powerKw=6, durationSeconds=600)
    before = await site.site("setpoint_ends_at")
    await site.acknowledge({first: "APPLIED"}, seconds=100)
    assert await site.site("setpoint_ends_at") == before
