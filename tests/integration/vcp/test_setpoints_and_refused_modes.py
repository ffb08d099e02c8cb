"""Setpoints of a partner, and steps of a schedule, whose plant refuses them or a mode before them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gridfleet.domains.plants.commands.delivery import claim_due
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite

HOUR = 3600
REFUSED = pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])


async def in_order(site: PartnerSite) -> list[Any]:
    """Return the mode or power of each command to the plant."""
    return [content.get("mode", content.get("powerKw")) for _, content, _ in await site.commands()]


async def begin_step(site: PartnerSite, *later: dict[str, Any]) -> None:
    """Set a schedule with a step of an hour that has just begun. The plant has applied both."""
    step = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step, *later])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    await site.acknowledge_newest("APPLIED")


async def order_mode(site: PartnerSite) -> UUID:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    return await site.newest()


async def order_setpoint(site: PartnerSite, **members: Any) -> UUID:
    await site.send("command.site-setpoint", powerKw=5, **{"durationSeconds": 900} | members)
    return await site.newest()


async def order_refused_mode_and_setpoint(site: PartnerSite) -> UUID:
    """Order a mode that the plant fails to execute, and a setpoint that the service issues again. Returns the latter."""
    refused = await order_mode(site)
    await site.send_commands()
    setpoint = await order_setpoint(site)
    await site.send_commands()
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    return setpoint


async def test_a_setpoint_that_waits_is_not_replaced_by_the_step_before_it(site: PartnerSite) -> None:
    await begin_step(site)
    refused = await order_mode(site)
    await order_setpoint(site)
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    assert await in_order(site) == [None, 2, "STANDBY", "AUTO", 5]
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=2)
    assert await site.issue_due(600) == 0
    await site.issue_due(906)
    assert (await in_order(site))[-2:] == [5, 2], "the step goes on after the setpoint"


async def test_the_step_goes_on_if_the_setpoint_that_waited_comes_to_nothing(site: PartnerSite) -> None:
    await begin_step(site)
    refused = await order_mode(site)
    await order_setpoint(site)
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    await site.expire(301)
    await site.issue_due(302)
    assert (await in_order(site))[-1] == 2


async def test_a_setpoint_that_the_plant_may_have_comes_again_after_the_mode(site: PartnerSite) -> None:
    """The plant executes it before the mode, and acknowledges it after the mode was issued."""
    refused = await order_mode(site)
    sent = await site.send_commands()
    setpoint = await order_setpoint(site)
    sent += await site.send_commands()
    assert sent == [refused, setpoint]
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    await site.acknowledge({setpoint: "APPLIED"}, seconds=1)
    sent = await site.send_commands(1) + await site.send_commands(2)
    contents: dict[Any, Any] = dict(await site.rows("SELECT id, instruction FROM plant_command"))
    assert [contents[one].get("mode", contents[one].get("powerKw")) for one in sent] == ["AUTO", 5]


async def test_a_setpoint_that_comes_again_does_not_outlive_one_that_the_plant_has_not_applied(site: PartnerSite) -> None:
    refused = await order_mode(site)
    await site.send_commands()
    await order_setpoint(site)
    await site.send_commands()
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    await site.expire(301)
    assert [one[2] for one in await site.commands() if one[1].get("powerKw")] == ["EXPIRED", "EXPIRED"]
    assert await site.site("setpoint_command_id, setpoint_ends_at") == (None, None)


async def test_a_setpoint_that_comes_again_late_lasts_for_the_rest_of_its_time(site: PartnerSite) -> None:
    refused = await order_mode(site)
    setpoint = await order_setpoint(site)
    await site.acknowledge({refused: "FAILED", setpoint: "APPLIED"})
    await site.issue_due(1)
    async with site.database.transaction() as db:
        due = await claim_due(db, site.plant.bench.keyring, datetime.now(UTC) + timedelta(seconds=600), 100)
    assert len(due) == 1, "the mode"
    await site.acknowledge({due[0].command.id: "APPLIED"}, seconds=600)
    async with site.database.transaction() as db:
        [again] = await claim_due(db, site.plant.bench.keyring, datetime.now(UTC) + timedelta(seconds=610), 100)
    payload = msgspec.json.decode(again.message)["payload"]
    assert payload["powerKw"] == 5
    assert 280 < payload["params"]["durationSeconds"] <= 290


async def test_a_step_that_began_after_the_setpoint_replaces_it(site: PartnerSite) -> None:
    """The refused mode held it back."""
    await begin_step(site, {"start": soon(HOUR), "durationSeconds": HOUR, "powerKw": 3})
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(2 * HOUR))
    refused = await site.newest()
    setpoint = await order_setpoint(site, durationSeconds=2 * HOUR, expiresAt=soon(2 * HOUR))
    await site.issue_due(HOUR + 60)
    await site.acknowledge({refused: "FAILED", setpoint: "APPLIED"}, seconds=HOUR + 120)
    await site.issue_due(HOUR + 121)
    assert (await in_order(site))[-1] == 3


async def test_a_setpoint_before_a_mode_that_failed_is_in_force_again(site: PartnerSite) -> None:
    await begin_step(site)
    await order_setpoint(site)
    await site.acknowledge_newest("APPLIED")
    refused = await order_mode(site)
    await site.acknowledge({refused: "FAILED"})
    await site.issue_due(1)
    sent = await site.send_commands(1) + await site.send_commands(2)
    contents: dict[Any, Any] = dict(await site.rows("SELECT id, instruction FROM plant_command"))
    assert [contents[one].get("mode", contents[one].get("powerKw")) for one in sent] == ["AUTO", 5]


async def test_a_setpoint_during_a_mode_that_is_rejected_is_not_replaced_by_the_step_before_it(site: PartnerSite) -> None:
    step = {"start": soon(60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    refused = await order_mode(site)
    setpoint = await order_setpoint(site, now=datetime.now(UTC) + timedelta(seconds=90))
    await site.issue_due(95)
    await site.acknowledge({refused: "REJECTED", setpoint: "APPLIED"}, seconds=100)
    await site.issue_due(101)
    assert await in_order(site) == [None, "STANDBY", 5]
    await site.issue_due(1003)
    assert await in_order(site) == [None, "STANDBY", 5, 2]


async def test_a_setpoint_before_the_mode_that_is_restored_is_not_issued_again(site: PartnerSite) -> None:
    """The plant has not confirmed this mode. A setpoint before it ends with it."""
    await order_setpoint(site, durationSeconds=40 * HOUR)
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="BACKUP", expiresAt=soon(40 * HOUR))
    await site.expire(25 * HOUR)
    now = datetime.now(UTC) + timedelta(hours=25)
    stamped = order(
        "command.mode",
        site.plant.id,
        slug=site.sender.key.slug,
        age=-25 * HOUR,
        mode="STANDBY",
        expiresAt=soon(30 * HOUR),
        issuedAt=now.isoformat(),
    )
    assert await site.take(stamped, now=now) == "ACCEPTED"
    await site.acknowledge_newest("FAILED")
    await site.issue_due(25 * HOUR + 40)
    assert await in_order(site) == [5, "BACKUP", "STANDBY", "BACKUP"]


@REFUSED
async def test_a_setpoint_that_the_plant_refuses_the_second_time_is_not_in_force(site: PartnerSite, answer: str) -> None:
    await begin_step(site)
    refused = await order_mode(site)
    setpoint = await order_setpoint(site)
    await site.acknowledge({refused: "FAILED", setpoint: "APPLIED"})
    await site.issue_due(1)
    await site.acknowledge({await site.newest(): answer}, seconds=2)
    assert await site.site("setpoint_command_id, setpoint_ends_at") == (None, None)
    await site.issue_due(3)
    assert (await in_order(site))[-1] == 2


@REFUSED
@pytest.mark.parametrize("has", ["nothing yet", "the mode", "both"])
async def test_a_setpoint_that_the_plant_refuses_ends_where_it_came_again(site: PartnerSite, answer: str, has: str) -> None:
    """The plant answers a second after the service has issued it again. Its partner reads the refusal."""
    await begin_step(site)
    setpoint = await order_refused_mode_and_setpoint(site)
    sent = await site.send_commands(1) + await site.send_commands(2)
    assert await in_order(site) == [None, 2, "STANDBY", "AUTO", 5, 5]
    executed = {"nothing yet": 0, "the mode": 1, "both": 2}[has]
    await site.acknowledge({setpoint: answer} | dict.fromkeys(sent[:executed], "APPLIED"), seconds=3)
    assert await site.site("setpoint_command_id, setpoint_ends_at") == (None, None)
    await site.issue_due(4)
    assert (await in_order(site))[-2:] == ["AUTO", 2], "the mode ends it, and the step goes on"
    assert (await site.log())[-1][:2] == (answer, answer)


@REFUSED
async def test_a_setpoint_after_one_that_the_plant_refuses_stays(site: PartnerSite, answer: str) -> None:
    setpoint = await order_refused_mode_and_setpoint(site)
    later = datetime.now(UTC) + timedelta(seconds=2)
    await site.send("command.site-setpoint", now=later, powerKw=7, durationSeconds=900)
    newest = await site.newest()
    await site.acknowledge({setpoint: answer}, seconds=3)
    assert await site.site("setpoint_command_id") == (newest,)
    assert await site.issue_due(4) == 0


@REFUSED
async def test_an_emergency_stop_after_a_setpoint_that_the_plant_refuses_is_not_sent_again(
    site: PartnerSite, answer: str
) -> None:
    setpoint = await order_refused_mode_and_setpoint(site)
    await site.acknowledge({setpoint: "RECEIVED"}, seconds=1)
    await site.send("command.mode", now=datetime.now(UTC) + timedelta(seconds=2), mode="EMERGENCY_STOP")
    await site.acknowledge({setpoint: answer}, seconds=3)
    assert await site.issue_due(4) == 0


async def fail_step(site: PartnerSite, answer: str, seconds: float = 0) -> None:
    await site.acknowledge({await site.newest(): answer}, seconds=seconds)


async def issue_long_step(site: PartnerSite) -> None:
    """Set a schedule whose only step, of two hours, is issued to the plant."""
    step = {"start": soon(-1), "durationSeconds": 2 * HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()


async def begin_failing_step(site: PartnerSite, answer: str) -> None:
    """Set a schedule whose first step, of two hours, the plant has received and does not apply."""
    await issue_long_step(site)
    await fail_step(site, answer)


async def test_a_step_that_failed_is_tried_again_after_growing_pauses(site: PartnerSite) -> None:
    """A failure passes, such as that of an inverter that starts. Before, the whole interval was lost."""
    await issue_long_step(site)
    pauses, _ = await site.fail_repeatedly(7, datetime.now(UTC))
    assert pauses == sorted(pauses)
    assert pauses[0] < 60
    assert pauses[-1] > 500
    assert set((await in_order(site))[1:]) == {2}


async def test_a_step_that_was_applied_at_last_is_not_tried_again(site: PartnerSite) -> None:
    await begin_failing_step(site, "FAILED")
    await site.issue_due(31)
    await fail_step(site, "APPLIED", 32)
    await site.issue_due(HOUR)
    assert await in_order(site) == [None, 2, 2]


async def test_a_step_that_was_rejected_is_tried_again_when_the_plant_connects(site: PartnerSite) -> None:
    await begin_failing_step(site, "REJECTED")
    await site.issue_due(HOUR)
    assert await in_order(site) == [None, 2]
    await site.acknowledge({}, connects=True, seconds=HOUR)
    await site.issue_due(HOUR + 1)
    assert await in_order(site) == [None, 2, 2]


@REFUSED
@pytest.mark.parametrize("before", [True, False])
async def test_a_step_that_is_tried_again_does_not_replace_a_later_setpoint(
    site: PartnerSite, answer: str, before: bool
) -> None:
    """The plant may answer the step before or after its partner sends the setpoint."""
    await issue_long_step(site)
    failing = await site.newest()
    if before:
        await site.acknowledge({failing: answer})
    setpoint = await order_setpoint(site)
    if not before:
        await site.acknowledge({failing: answer})
    await site.acknowledge({setpoint: "APPLIED"})
    await site.acknowledge({}, connects=True, seconds=40)
    await site.issue_due(80)
    assert await in_order(site) == [None, 2, 5]
    await site.issue_due(910)
    assert await in_order(site) == [None, 2, 5, 2], "the schedule goes on after the setpoint"


@REFUSED
async def test_a_step_that_the_plant_refuses_comes_again_in_place_of_the_setpoint_before_it(
    site: PartnerSite, answer: str
) -> None:
    """The partner's setpoint without an end holds until the next step."""
    await site.send("command.site-setpoint", powerKw=5)
    await site.acknowledge_newest("APPLIED")
    await begin_failing_step(site, answer)
    await site.acknowledge({}, connects=True, seconds=40)
    await site.issue_due(80)
    assert (await in_order(site))[-2:] == [2, 2]


@REFUSED
async def test_a_step_is_tried_again_if_the_setpoint_in_its_place_comes_to_nothing(site: PartnerSite, answer: str) -> None:
    """The step before it, which the plant has applied, is over. It was taken for what the plant still does."""
    steps = [
        {"start": soon(-60), "durationSeconds": 65, "powerKw": 1},
        {"start": soon(5), "durationSeconds": 2 * HOUR, "powerKw": 2},
    ]
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps)
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(6)
    await fail_step(site, "FAILED", 7)
    setpoint = await order_setpoint(site, now=datetime.now(UTC) + timedelta(seconds=8))
    await site.issue_due(60)
    assert await in_order(site) == [None, 1, 2, 5]
    await site.acknowledge({setpoint: answer}, seconds=65)
    await site.issue_due(66)
    assert await in_order(site) == [None, 1, 2, 5, 2]


@REFUSED
async def test_a_step_is_tried_again_although_the_plant_has_a_setpoint_from_before_it(site: PartnerSite, answer: str) -> None:
    await site.send("command.site-setpoint", now=datetime.now(UTC) - timedelta(seconds=5), powerKw=4)
    await site.acknowledge_newest("APPLIED")
    await begin_failing_step(site, "FAILED")
    setpoint = await order_setpoint(site)
    await site.issue_due(40)
    await site.acknowledge({setpoint: answer}, seconds=45)
    await site.issue_due(46)
    assert await in_order(site) == [4, None, 2, 5, 2]


async def refuse_auto(site: PartnerSite, answer: str) -> UUID:
    """Order a setpoint, which the plant applies, and AUTO, which it refuses. Returns the setpoint."""
    setpoint = await order_setpoint(site)
    await site.acknowledge({setpoint: "APPLIED"})
    await site.send("command.mode", mode="AUTO")
    await site.acknowledge_newest(answer)
    return setpoint


async def test_a_setpoint_before_an_auto_that_failed_stays(site: PartnerSite) -> None:
    """The partner has read the failure. The AUTO that was sent again ended the setpoint."""
    setpoint = await refuse_auto(site, "FAILED")
    assert await site.site("setpoint_command_id") == (setpoint,)
    await site.issue_due(31)
    assert await in_order(site) == ["AUTO", 5, "AUTO", 5], "ordered by place: AUTO is sent again before the setpoint"


async def test_a_setpoint_before_an_auto_that_was_rejected_stays(site: PartnerSite) -> None:
    setpoint = await refuse_auto(site, "REJECTED")
    await site.acknowledge({}, connects=True, seconds=40)
    await site.issue_due(80)
    assert (await in_order(site))[-2:] == [5, "AUTO"]
    assert await site.site("setpoint_command_id") == (setpoint,)


async def test_a_step_whose_interval_is_over_is_not_tried_again(site: PartnerSite) -> None:
    first = {"start": soon(-1), "durationSeconds": 60, "powerKw": 2}
    last = {"start": soon(HOUR), "durationSeconds": 60, "powerKw": 3}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[first, last])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    await fail_step(site, "FAILED", 50)
    await site.issue_due(120)
    assert await in_order(site) == [None, 2]


@pytest.mark.parametrize("applied", [True, False])
async def test_a_setpoint_stays_if_its_repetition_and_the_mode_before_it_fail(site: PartnerSite, applied: bool) -> None:
    """Without the mode, the plant has not dropped the setpoint. It does when the mode comes again."""
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(61)
    await site.acknowledge({await site.newest(): "FAILED"}, seconds=62)
    sent = datetime.now(UTC) + timedelta(seconds=70)
    await site.send("command.site-setpoint", now=sent, powerKw=5, durationSeconds=HOUR)
    await site.send_commands(70)
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(95)
    answers = {id: "APPLIED" if applied and content.get("mode") else "FAILED" for id, content in await still_open(site)}
    await site.acknowledge(answers, seconds=96)
    await site.issue_due(200)
    again = [content.get("mode", content.get("powerKw")) for _, content in await still_open(site)]
    assert again == ([] if applied else ["AUTO", 5])


async def still_open(site: PartnerSite) -> list[tuple[UUID, dict[str, Any]]]:
    """Return id and content of the commands that the plant has not answered."""
    found = await site.rows("SELECT id, instruction FROM plant_command WHERE finished_at IS NULL ORDER BY issued_at, id")
    return [(id, content) for id, content in found]
