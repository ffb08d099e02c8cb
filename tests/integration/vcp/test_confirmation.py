"""Modes, schedules and limits reach plants that are away for long, and what a plant refuses changes nothing."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgements
from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.plants.commands.models import Acknowledgement
from gridfleet.domains.vcp.confirmation.dispatch import complete_missed
from gridfleet.protocol.envelope import AckStatus
from support.builders.partner_commands import body_of, signed_bytes, soon
from support.builders.partner_site import PartnerSite

HOUR = 3600
DAY = 24 * HOUR


def step(start: float, length: int = 900, power: float = 1) -> dict[str, Any]:
    return {"start": soon(start), "durationSeconds": length, "powerKw": power}


async def open_at(site: PartnerSite, seconds: float) -> list[Any]:
    """Modes, powers and schedules of the commands that an offline plant would get if it came back then, in their order."""
    await site.expire(seconds)
    await site.issue_due(seconds)
    return [
        content.get("mode") or content.get("powerKw") or content["schedule"]["revision"]
        for kind, content, status in await site.commands()
        if status == "PENDING"
    ]


async def override_of(site: PartnerSite) -> tuple[Any, ...]:
    """(mode, power) that hold at the site."""
    return tuple(await site.site("override_mode, override_power_kw"))


@pytest.mark.parametrize("away", [2 * HOUR, 26 * HOUR, 60 * HOUR])
async def test_an_offline_plant_gets_auto_after_the_end_of_an_override(site: PartnerSite, away: int) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    for seconds in range(61, away, 12 * HOUR):
        assert await open_at(site, seconds) == ["AUTO"]
    assert await open_at(site, away) == ["AUTO"]
    assert await site.send_commands(away) != []


async def test_an_offline_plant_gets_its_fallback(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "SELF_CONSUMPTION", "afterSeconds": 60})
    await site.acknowledge_newest("APPLIED")
    assert await open_at(site, 61) == ["SELF_CONSUMPTION"]
    assert await open_at(site, 25 * HOUR) == ["SELF_CONSUMPTION"]


async def test_what_the_plant_confirmed_is_not_issued_again(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(2 * DAY))
    await site.acknowledge_newest("APPLIED")
    assert await open_at(site, 30 * HOUR) == []
    assert await open_at(site, 2 * DAY + 1) == ["AUTO"]
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=2 * DAY + 2)
    assert await open_at(site, 4 * DAY) == []


async def test_a_long_override_is_issued_again_until_its_end(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", powerKw=3, expiresAt=soon(40 * HOUR))
    assert await open_at(site, 25 * HOUR) == ["CHARGE"]
    assert (await site.commands())[-1][1] == {"mode": "CHARGE", "powerKw": 3.0}
    [(ends,)] = await site.rows(
        "SELECT c.expires_at = s.override_expires_at FROM plant_command c JOIN vcp_site s USING (plant_id)"
        " WHERE c.status = 'PENDING'"
    )
    assert ends
    assert await open_at(site, 41 * HOUR) == ["AUTO"]


async def test_an_emergency_stop_is_issued_again_until_auto(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    assert await open_at(site, 25 * HOUR) == ["EMERGENCY_STOP"]
    assert [kind for kind, _, _ in await site.commands()] == ["EMERGENCY", "EMERGENCY"]
    await site.send("command.mode", mode="AUTO")
    assert await open_at(site, 25 * HOUR + 5) == ["EMERGENCY_STOP", "AUTO"]


async def test_a_mode_issued_again_keeps_its_place_before_later_commands(site: PartnerSite) -> None:
    await site.send("command.mode", mode="AUTO")
    await site.send("command.site-setpoint", powerKw=3, expiresAt=soon(20 * HOUR))
    assert await open_at(site, 2 * HOUR) == ["AUTO", 3.0]


@pytest.mark.parametrize(("commands", "letters"), [(1_000, 1), (9, 1 << 20)])
async def test_a_mode_that_finds_no_room_is_issued_once_there_is_some(site: PartnerSite, commands: int, letters: int) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    await site.acknowledge_newest("APPLIED")
    await site.execute(
        "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
        " SELECT gen_random_uuid(), %(plant)s, 'DEVICE_COMMAND', jsonb_build_object('mode', repeat('x', %(letters)s)), 'USER',"
        " now(), now() + interval '70 seconds', now() FROM generate_series(1, %(commands)s)",
        {"letters": letters, "commands": commands},
    )
    assert "AUTO" not in await open_at(site, 61)
    assert await site.issue_due(62) == 0
    assert await open_at(site, 71) == ["AUTO"]


async def test_a_schedule_is_issued_again_until_it_is_over(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(30 * HOUR, HOUR)])
    assert await open_at(site, 2 * HOUR) == [4]
    schedules = [content["schedule"] for kind, content, _ in await site.commands() if kind == "SCHEDULE"]
    assert len(schedules) == 2
    assert schedules[0] == schedules[1]
    assert await open_at(site, 30 * HOUR + 1) == [4, 1.0]
    assert await open_at(site, 31 * HOUR + 1) == [4]
    assert await open_at(site, 3 * DAY) == []


@pytest.mark.parametrize("applied", [True, False])
async def test_a_plant_that_missed_a_schedule_drops_the_step_of_the_one_before(site: PartnerSite, applied: bool) -> None:
    """The replaced schedule's step holds for hours, and the replacement is over when the plant comes back."""
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, 6 * HOUR, 5)])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    if applied:
        await site.acknowledge_newest("APPLIED")
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(0, 600)])
    assert await open_at(site, 601) == [*([] if applied else [5.0]), 2]
    assert await open_at(site, 2 * HOUR) == [*([] if applied else [5.0]), 2]
    assert (await site.commands())[-1][1] == {"schedule": {"scheduleId": "s", "revision": 2, "intervals": []}}
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=2 * HOUR)
    assert await open_at(site, 30 * HOUR) == []


async def test_a_cancellation_is_issued_again(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(30 * HOUR, HOUR)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.cancel", scheduleId="s")
    assert await open_at(site, 2 * HOUR) == [4]
    assert (await site.commands())[-1][1] == {"schedule": {"scheduleId": "s", "revision": 4, "intervals": []}}


async def test_a_schedule_waits_for_the_end_of_an_emergency_stop(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(30 * HOUR, HOUR)])
    await site.send("command.mode", mode="EMERGENCY_STOP")
    assert await open_at(site, 1) == ["EMERGENCY_STOP"]
    await site.acknowledge({await site.newest(): "APPLIED"})
    await site.send("command.mode", mode="AUTO")
    assert sorted(await open_at(site, 2), key=str) == [4, "AUTO"]


async def test_a_cancellation_comes_after_the_auto_that_ends_an_emergency_stop(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(-60, DAY, 7)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.cancel", scheduleId="s")
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.expire(1)
    await site.acknowledge({await site.newest(): "APPLIED"})
    await site.send("command.mode", mode="AUTO")
    await site.issue_due(2)
    sent = await site.send_commands(3) + await site.send_commands(3)
    modes: dict[Any, Any] = dict(await site.rows("SELECT id, instruction->>'mode' FROM plant_command"))
    assert [modes[command] for command in sent] == ["AUTO", None]
    # The stopped plant would have refused the cancellation before AUTO, and the schedule would be in force again.
    await site.acknowledge(dict.fromkeys(sent, "APPLIED"), seconds=4)
    assert await site.site("schedule_active") == (False,)


async def stop_and_order_auto(site: PartnerSite) -> None:
    """The plant confirms a stop and is away when AUTO is sent."""
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="AUTO")


async def test_a_stopped_plant_gets_auto_before_its_fallback(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60})
    await site.acknowledge_newest("APPLIED")
    await stop_and_order_auto(site)
    assert await open_at(site, 61) == ["AUTO", "AUTO", "BACKUP"]
    for hours in (2, 25):
        assert await open_at(site, hours * HOUR) == ["AUTO", "BACKUP"], "it refuses all but AUTO"
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=26 * HOUR)
    assert await open_at(site, 60 * HOUR) == []


async def test_a_stopped_plant_gets_auto_before_what_follows_it(site: PartnerSite) -> None:
    await stop_and_order_auto(site)
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(40 * HOUR)])
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(30 * HOUR))
    assert await open_at(site, 1) == ["AUTO", "AUTO", 4, "CHARGE"]
    for hours in (2, 25):
        assert await open_at(site, hours * HOUR) == ["AUTO", 4, "CHARGE"]


async def test_a_second_stop_is_not_followed_by_the_auto_before_it(site: PartnerSite) -> None:
    await stop_and_order_auto(site)
    await site.send("command.mode", mode="EMERGENCY_STOP")
    assert await open_at(site, 1) == ["EMERGENCY_STOP"]
    assert await open_at(site, 25 * HOUR) == ["EMERGENCY_STOP"]


async def test_a_long_step_is_issued_again(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=4, intervals=[step(-60, 2 * DAY, 7)])
    await site.acknowledge_newest("APPLIED")
    assert await open_at(site, 1) == [7.0]
    await site.expire(25 * HOUR)
    await site.issue_due(25 * HOUR)
    assert await open_at(site, 25 * HOUR + 1) == [7.0]


async def open_limits(site: PartnerSite, seconds: float) -> list[Any]:
    """(import limit, seconds to the fallback) of the commands that an offline plant would get then; None if absent."""
    await site.expire(seconds)
    await site.issue_due(seconds)
    found = [content["params"] for kind, content, status in await site.commands() if (kind, status) == ("CONFIG", "PENDING")]
    return [
        (params.get("constraints", {}).get("importLimitKw"), params.get("fallback", {}).get("afterSeconds")) for params in found
    ]


async def test_limits_are_issued_again_until_the_plant_has_them(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 9})
    assert await open_limits(site, 2 * HOUR) == [(9, None)]
    assert await open_limits(site, 30 * HOUR) == [(9, None)]
    await site.acknowledge_newest("APPLIED")
    assert await open_limits(site, 60 * HOUR) == []


@pytest.mark.parametrize("applied", [True, False])
async def test_limits_and_a_fallback_that_follow_each_other_both_reach_the_plant(site: PartnerSite, applied: bool) -> None:
    """The command of each has it alone, and the plant may confirm the second after the first has expired."""
    await site.send("config.constraints", constraints={"importLimitKw": 9})
    await site.send("config.fallback", fallback={"mode": "STANDBY", "afterSeconds": 5 * DAY})
    second = await site.newest()
    assert (await site.issue_due(), len(await site.commands())) == (0, 2)
    if applied:
        await site.acknowledge({second: "APPLIED"})
    assert await open_limits(site, 2 * HOUR) == [(9, 5 * DAY)]
    [(both,)] = await site.rows("SELECT id FROM plant_command WHERE plant_id = %(plant)s AND finished_at IS NULL")
    await site.acknowledge({both: "APPLIED"})
    assert await open_limits(site, 60 * HOUR) == []


async def test_limits_that_the_plant_refused_are_issued_again_when_it_connects(site: PartnerSite) -> None:
    await site.send("config.constraints", constraints={"importLimitKw": 9})
    await site.acknowledge_newest("REJECTED")
    assert await open_limits(site, 2 * HOUR) == []
    await site.acknowledge({}, connects=True)
    assert await open_limits(site, 2 * HOUR) == [(9, None)]


async def test_limits_that_a_stop_made_the_plant_reject_are_issued_again_after_it(site: PartnerSite) -> None:
    """They had arrived and waited behind a command that took long. The plant stays connected."""
    await site.send("config.constraints", constraints={"importLimitKw": 9})
    limits = await site.newest()
    await site.send_commands()
    await site.acknowledge({limits: "RECEIVED"})
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge({limits: "REJECTED", await site.newest(): "APPLIED"})
    await site.issue_due(DAY)
    assert [kind for kind, _, _ in await site.commands()] == ["CONFIG", "EMERGENCY"]
    await site.send("command.mode", mode="AUTO")
    await site.issue_due()
    assert [one[::2] for one in await site.commands()][2:] == [("MODE_CHANGE", "PENDING"), ("CONFIG", "PENDING")]
    await site.acknowledge({await site.newest(): "REJECTED"})
    assert await site.issue_due(DAY) == 0


async def test_what_the_plant_refused_is_tried_again_when_it_connects(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(61)
    await site.acknowledge({await site.newest(): "REJECTED"})
    assert await open_at(site, 5 * HOUR) == []
    await site.acknowledge({}, connects=True)
    assert await open_at(site, 5 * HOUR) == ["AUTO"]


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("config.constraints", {"constraints": {"importLimitKw": 9}}),
        ("config.fallback", {"fallback": {"mode": "STANDBY", "afterSeconds": HOUR}}),
    ],
)
async def test_what_the_plant_refuses_at_every_connection_is_issued_again_after_a_pause(
    site: PartnerSite, kind: str, members: dict[str, Any], answer: str
) -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    await site.send(kind, now=long_ago, **members)
    await site.acknowledge({await site.newest(): answer}, now=long_ago)
    await site.acknowledge({}, connects=True)
    assert await site.issue_due() == 1, "the plant refused it minutes ago"
    for _ in range(3):
        await site.acknowledge({await site.newest(): answer})
        await site.acknowledge({}, connects=True)
        assert await site.issue_due(25) == 0
    assert await site.issue_due(31) == 1


@pytest.mark.parametrize(
    ("family", "members"),
    [
        ("command.mode", {"mode": "EMERGENCY_STOP"}),
        ("command.mode", {"mode": "STANDBY"}),
        ("config.constraints", {"constraints": {"importLimitKw": 9}}),
        ("config.fallback", {"fallback": {"mode": "STANDBY", "afterSeconds": DAY}}),
    ],
)
async def test_what_failed_is_tried_again_while_the_plant_is_connected(
    site: PartnerSite, family: str, members: dict[str, Any]
) -> None:
    """The partner cannot repeat an emergency stop, nor the AUTO at the end of an override."""
    is_override = members.get("mode") == "STANDBY"
    now = datetime.now(UTC)
    await site.send(family, now=now, **members, **({"expiresAt": soon(60)} if is_override else {}))
    if is_override:
        await site.acknowledge_newest("APPLIED")
        now += timedelta(seconds=61)
        assert await site.issue_due(now=now) == 1
    pauses, now = await site.fail_repeatedly(8, now)
    assert pauses == sorted(pauses)
    assert pauses[0] < 60
    assert pauses[-1] > 500
    await site.acknowledge({await site.newest(): "FAILED"}, now=now)
    await site.acknowledge({}, now=now + timedelta(seconds=40), connects=True)
    assert await site.issue_due(now=now + timedelta(seconds=41)) == 1, "a connection ends the pause"
    await site.acknowledge({await site.newest(): "APPLIED"}, now=now + timedelta(seconds=42))
    assert await site.issue_due(now=now + timedelta(hours=2)) == 0


async def test_an_emergency_stop_that_the_plant_refuses_is_issued_again_at_each_connection(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    for _ in range(3):
        await site.acknowledge({await site.newest(): "FAILED"})
        await site.acknowledge({}, connects=True)
        assert await site.issue_due() == 1


@pytest.mark.parametrize("mode", ["EMERGENCY_STOP", "CHARGE"])
async def test_a_mode_that_a_plant_received_before_a_power_cut_is_issued_again(site: PartnerSite, mode: str) -> None:
    """The plant's program may not remember the command after the cut, and would stay without the mode for a day."""
    now = datetime.now(UTC)
    await site.send("command.mode", mode=mode, **({} if mode == "EMERGENCY_STOP" else {"expiresAt": soon(60)}))
    if mode == "CHARGE":
        await site.acknowledge_newest("APPLIED")
        now += timedelta(seconds=61)
        assert await site.issue_due(now=now) == 1
    command = "EMERGENCY_STOP" if mode == "EMERGENCY_STOP" else "AUTO"
    await site.acknowledge({await site.newest(): "RECEIVED"}, now=now, connects=True)
    assert await site.issue_due(now=now + timedelta(seconds=25)) == 0, "the plant may execute it at this moment"
    await site.acknowledge({}, now=now + timedelta(seconds=60), connects=True)
    assert await site.issue_due(now=now + timedelta(seconds=62)) == 1
    assert [content["mode"] for _, content, _ in await site.commands()][-2:] == [command] * 2
    await site.acknowledge({}, now=now + timedelta(seconds=65), connects=True)
    assert await site.issue_due(now=now + timedelta(seconds=120)) == 0, "the second one is on its way"
    await site.acknowledge_newest("APPLIED")
    await site.acknowledge({}, connects=True)
    assert await site.issue_due(now=now + timedelta(seconds=180)) == 0


async def receive_before_a_power_cut(site: PartnerSite, kind: str, **members: Any) -> UUID:
    """Let the plant receive a partner command and connect again. Returns its id, after the service has repeated it."""
    await site.send(kind, **members)
    own = await site.newest()
    await site.acknowledge({own: "RECEIVED"}, connects=True)
    assert await site.issue_due(31) >= 1
    assert await site.newest() != own
    return own


REFUSED = pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
REPETITION = pytest.mark.parametrize("repetition", [None, "RECEIVED", "APPLIED", "REJECTED", "FAILED"])


@REFUSED
@REPETITION
@pytest.mark.parametrize("together", [True, False])
async def test_a_mode_that_is_refused_after_it_was_issued_again_is_undone(
    site: PartnerSite, answer: str, repetition: str | None, together: bool
) -> None:
    """The partner reads the refusal of its own command."""
    own = await receive_before_a_power_cut(site, "command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    again = await site.newest()
    second = {} if repetition is None else {again: repetition}
    if not together:
        await site.acknowledge(second, seconds=32)
    await site.acknowledge({own: answer, **(second if together else {})}, seconds=33)
    assert await override_of(site) == (None, None)
    # A plant that has rejected the second one before is still in AUTO.
    expected = ["STANDBY", "STANDBY"] if repetition == "REJECTED" and not together else ["STANDBY", "STANDBY", "AUTO"]
    await site.issue_due(34)
    assert [content["mode"] for _, content, _ in await site.commands()] == expected
    await site.acknowledge({again: "APPLIED"}, seconds=35)
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=36)
    assert await site.issue_due(DAY) == 0


@REFUSED
async def test_a_setpoint_ends_with_a_mode_that_the_plant_applied_again_and_refused(site: PartnerSite, answer: str) -> None:
    """The plant has dropped it. The site must not show it until its end."""
    await site.send("command.site-setpoint", powerKw=1, durationSeconds=HOUR)
    await site.acknowledge_newest("APPLIED")
    own = await receive_before_a_power_cut(site, "command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=32)
    await site.acknowledge({own: answer}, seconds=33)
    assert await open_at(site, 34) == ["AUTO"]
    assert await site.site("setpoint_command_id, setpoint_ends_at") == (None, None)


@REFUSED
@REPETITION
async def test_an_auto_that_is_refused_after_it_was_issued_again_leaves_the_override(
    site: PartnerSite, answer: str, repetition: str | None
) -> None:
    await site.send("command.mode", mode="CHARGE", powerKw=2, expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    own = await receive_before_a_power_cut(site, "command.mode", mode="AUTO")
    if repetition is not None:
        await site.acknowledge({await site.newest(): repetition}, seconds=32)
    await site.acknowledge({own: answer}, seconds=33)
    assert await override_of(site) == ("CHARGE", 2.0)
    assert await site.issue_due(34) == 1
    assert [content["mode"] for _, content, _ in await site.commands()] == ["CHARGE", "AUTO", "AUTO", "CHARGE"]


@REFUSED
@REPETITION
async def test_a_schedule_that_is_refused_after_it_was_issued_again_is_undone(
    site: PartnerSite, answer: str, repetition: str | None
) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(HOUR)])
    await site.acknowledge_newest("APPLIED")
    own = await receive_before_a_power_cut(site, "schedule.set", scheduleId="s", revision=2, intervals=[step(2 * HOUR)])
    if repetition is not None:
        await site.acknowledge({await site.newest(): repetition}, seconds=32)
    await site.acknowledge({own: answer}, seconds=33)
    assert await site.site("schedule_revision, schedule_active") == (1, True)
    assert await site.issue_due(34) == 1
    assert [content["schedule"]["revision"] for _, content, _ in await site.commands()] == [1, 2, 2, 1]
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(HOUR)]) == "ACCEPTED"


@REFUSED
async def test_a_first_schedule_that_is_refused_after_it_was_issued_again_can_be_sent_again(
    site: PartnerSite, answer: str
) -> None:
    plan = {"scheduleId": "s", "revision": 1, "intervals": [step(HOUR)]}
    own = await receive_before_a_power_cut(site, "schedule.set", **plan)
    await site.acknowledge({own: answer}, seconds=33)
    assert await site.site("schedule_id, schedule_active") == (None, False)
    assert await site.issue_due(34) == 0
    assert await site.send("schedule.set", **plan) == "ACCEPTED"


@REFUSED
async def test_a_stop_that_is_refused_after_it_was_issued_again_stays(site: PartnerSite, answer: str) -> None:
    own = await receive_before_a_power_cut(site, "command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge({own: answer}, seconds=33)
    assert await override_of(site) == ("EMERGENCY_STOP", None)
    assert await site.issue_due(34) == 0, "the second one is on its way"


async def test_a_mode_that_expires_after_it_was_issued_again_stays(site: PartnerSite) -> None:
    await receive_before_a_power_cut(site, "command.mode", mode="STANDBY", expiresAt=soon(3 * DAY))
    await site.expire(DAY + 1)
    assert await override_of(site) == ("STANDBY", None)


async def test_a_plant_that_refuses_a_mode_and_a_schedule_at_once_has_neither(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    mode = await site.newest()
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(0)])
    await site.acknowledge({mode: "REJECTED", await site.newest(): "REJECTED"})
    assert await site.site("override_mode, schedule_active") == (None, False)
    assert await site.rows("SELECT 1 FROM vcp_interval") == []


async def test_the_override_before_a_refused_mode_holds_again(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", powerKw=2, expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    first = await site.site("override_set_by, override_expires_at, override_command_id")
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(2 * HOUR))
    await site.acknowledge_newest("REJECTED")
    assert await override_of(site) == ("CHARGE", 2.0)
    assert await site.site("override_set_by, override_expires_at, override_command_id") == first
    assert await open_at(site, 1) == [], "the plant runs in it still"
    assert await open_at(site, HOUR + 1) == ["AUTO"]


async def test_a_mode_that_failed_is_undone_at_the_plant(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", powerKw=2, expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(2 * HOUR))
    await site.acknowledge_newest("FAILED")
    assert await open_at(site, 1) == ["CHARGE"]


async def test_an_override_that_ended_meanwhile_is_not_restored(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(60))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge({await site.newest(): "REJECTED"}, seconds=61)
    assert await override_of(site) == (None, None)
    assert await open_at(site, 62) == ["AUTO"], "the plant charges, and its override is over"


async def test_several_refused_modes_lead_back_to_the_one_that_the_plant_took(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    second = await site.newest()
    await site.send("command.mode", mode="BACKUP", expiresAt=soon(HOUR))
    await site.acknowledge({await site.newest(): "REJECTED"})
    assert await override_of(site) == ("STANDBY", None)
    await site.acknowledge({second: "REJECTED"})
    assert await open_at(site, 1) == ["STANDBY"], "the plant is asked about the one that holds"
    await site.acknowledge({await site.newest(): "REJECTED"}, seconds=2)
    assert await override_of(site) == ("CHARGE", None)
    assert await open_at(site, 3) == ["CHARGE"]


async def test_a_refused_auto_leaves_the_override(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="AUTO")
    await site.acknowledge_newest("REJECTED")
    assert await override_of(site) == ("STANDBY", None)
    assert await open_at(site, HOUR + 1) == ["AUTO"]


async def test_a_refused_auto_leaves_the_emergency_stop(site: PartnerSite) -> None:
    await site.send("command.mode", mode="EMERGENCY_STOP")
    await site.acknowledge_newest("FAILED")
    await site.send("command.mode", mode="AUTO")
    await site.acknowledge_newest("REJECTED")
    assert await site.send("command.site-setpoint", powerKw=1) == "EMERGENCY_STOP_ACTIVE"


async def test_a_fallback_ended_by_a_mode_that_the_plant_refused_is_undone(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60})
    await site.acknowledge_newest("APPLIED")
    await site.issue_due(61)
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=62)
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    [(standby,)] = await site.rows("SELECT override_command_id FROM vcp_site")
    await site.acknowledge({standby: "REJECTED"})
    assert await open_at(site, 3) == ["AUTO"]


async def test_a_setpoint_survives_a_mode_that_the_plant_refused(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=1, durationSeconds=HOUR)
    await site.acknowledge_newest("APPLIED")
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("REJECTED")
    assert await open_at(site, 1) == [], "the plant never left AUTO, and AUTO would end its setpoint"


async def test_the_schedule_before_a_refused_revision_holds_again(site: PartnerSite) -> None:
    held = [step(-60, 900, 2), step(840, 900, 3)]
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=held)
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(-60, 900, 8)])
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_id, schedule_revision, schedule_active") == ("s", 1, True)
    assert await site.rows("SELECT power_kw FROM vcp_interval ORDER BY start_at") == [(2.0,), (3.0,)]
    assert await open_at(site, 1) == [1, 2.0]
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(0)]) == "ACCEPTED"


async def take_all(site: PartnerSite, seconds: float, **answers: str) -> None:
    """Answer what waits for the plant after a run of the scheduler with APPLIED, or with the answer for its type."""
    await site.issue_due(seconds)
    while sent := await site.send_commands(seconds):
        types: dict[Any, str] = dict(await site.rows("SELECT id, type FROM plant_command"))
        await site.acknowledge({one: answers.get(types[one], "APPLIED") for one in sent}, seconds=seconds)


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
async def test_a_step_of_a_refused_schedule_ends_at_the_plant(site: PartnerSite, answer: str) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, DAY, 7)])
    schedule = await site.newest()
    await site.issue_due(1)
    await site.acknowledge({schedule: answer, await site.newest(): "APPLIED"}, seconds=2)
    assert await open_at(site, 3) == ["AUTO"]


async def test_a_step_of_a_refused_revision_gives_way_to_the_one_before(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, DAY, 2)])
    await take_all(site, 0)
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(-60, DAY, 7)])
    await take_all(site, 1, SCHEDULE="REJECTED")
    assert await open_at(site, 2) == [1, "AUTO", 2.0]


async def test_a_refused_schedule_leaves_a_setpoint(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, DAY, 2)])
    await take_all(site, 0)
    await site.send("command.site-setpoint", powerKw=5, durationSeconds=HOUR)
    await take_all(site, 1)
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(HOUR)])
    await site.acknowledge_newest("REJECTED")
    assert await open_at(site, 2) == [1], "the schedule, and no step of it"


async def test_a_refused_cancellation_leaves_the_schedule(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60, 900, 2)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.cancel", scheduleId="s")
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_active") == (True,)
    assert 2.0 in await open_at(site, 1)


async def test_a_schedule_that_was_cancelled_or_is_over_is_not_restored(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(-60)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.cancel", scheduleId="s")
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(0)])
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_active") == (False,)
    await site.send("schedule.set", scheduleId="t", revision=1, intervals=[step(0, 60)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.set", scheduleId="t", revision=2, intervals=[step(70, 900)])
    await site.acknowledge({await site.newest(): "REJECTED"}, seconds=61)
    assert await site.site("schedule_active") == (False,)


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
@pytest.mark.parametrize("before", ["none", "over", "cancelled"])
async def test_a_refused_revision_can_be_sent_again(site: PartnerSite, before: str, answer: str) -> None:
    if before != "none":
        await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(0, 60)])
        await site.acknowledge_newest("APPLIED")
    if before == "cancelled":
        await site.send("schedule.cancel", scheduleId="s")
        await site.acknowledge_newest("APPLIED")
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(70)])
    await site.acknowledge({await site.newest(): answer}, seconds=61)
    assert await site.site("schedule_active") == (False,)
    if before != "none":
        assert await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(70)]) == "SCHEDULE_INVALID"
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(70)]) == "ACCEPTED"


async def test_a_refused_cancellation_of_a_schedule_that_is_over_frees_no_revision(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(0, 60)])
    await site.acknowledge_newest("APPLIED")
    await site.send("schedule.cancel", scheduleId="s")
    await site.acknowledge({await site.newest(): "REJECTED"}, seconds=61)
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(70)]) == "SCHEDULE_INVALID"


async def test_nothing_of_the_time_before_a_move_is_restored(site: PartnerSite) -> None:
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(HOUR))
    await site.acknowledge_newest("APPLIED")
    await site.execute("DELETE FROM vcp_site")  # as a move away does; later the plant comes back
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("REJECTED")
    assert await override_of(site) == (None, None)


async def end_without_its_site(site: PartnerSite, status: AckStatus | None, seconds: float) -> None:
    """End the newest command as a gateway of an older release does, which does not know what is unconfirmed."""
    now = datetime.now(UTC) + timedelta(seconds=seconds)
    newest = await site.newest()
    async with site.database.transaction() as db:
        if status is None:
            await expire_due(db, now, None)
        else:
            await apply_acknowledgements(db, [Acknowledgement(newest, site.plant.id, status, now)], set(), now, None)


async def settle(site: PartnerSite) -> int:
    async with site.database.transaction() as db:
        return await complete_missed(db, datetime.now(UTC))


@pytest.mark.parametrize("status", [None, AckStatus.FAILED])
async def test_a_mode_whose_end_was_missed_is_issued_again(site: PartnerSite, status: AckStatus | None) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(40 * HOUR))
    assert await settle(site) == 0
    await end_without_its_site(site, status, 25 * HOUR)
    assert await open_at(site, 26 * HOUR) == []
    assert await settle(site) == 1
    assert await open_at(site, 26 * HOUR) == ["STANDBY"]
    assert await settle(site) == 0


async def test_a_mode_whose_confirmation_was_missed_is_settled(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(40 * HOUR))
    await end_without_its_site(site, AckStatus.APPLIED, 1)
    assert await settle(site) == 1
    assert await site.rows("SELECT kind FROM vcp_unconfirmed") == []
    assert await open_at(site, 25 * HOUR) == []


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("command.mode", {"mode": "CHARGE", "expiresAt": soon(3600)}),
        ("schedule.set", {"scheduleId": "s", "revision": 1, "intervals": [step(HOUR)]}),
    ],
)
async def test_a_command_that_could_not_be_restored_is_refused(site: PartnerSite, kind: str, members: dict[str, Any]) -> None:
    """The log does not keep 900 numbers of 309 digits. When the plant refused a later command, its acknowledgement was lost."""
    assert await site.send(kind, **members, note=[1e308] * 900) == "MALFORMED"
    assert await site.send(kind, **members, note=[1e308] * 500) == "ACCEPTED"


@pytest.mark.parametrize("number", ["1e999", "1" * 5_000])
async def test_a_schedule_with_a_number_that_json_cannot_hold_is_refused(site: PartnerSite, number: str) -> None:
    """It was accepted and stored without its intervals, and the refusal of a later schedule could then not be recorded."""
    content = body_of(site.plant.id, scheduleId="s", revision=1, intervals=[step(HOUR) | {"note": "NUMBER"}])
    body = json.dumps(content).replace('"NUMBER"', number).encode()
    assert await site.take(signed_bytes(f"{site.sender.key.slug}.schedule.set", body, str(site.plant.id))) == "REJECTED"
    assert (await site.log())[-1][2] == "MALFORMED"


async def test_a_stored_command_that_cannot_be_read_counts_as_none(site: PartnerSite) -> None:
    """As an earlier release has stored it."""
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step(HOUR)])
    await site.acknowledge_newest("APPLIED")
    await site.execute("UPDATE vcp_command SET payload = payload - 'intervals'")
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[step(HOUR)])
    await site.acknowledge_newest("REJECTED")
    assert await site.site("schedule_active") == (False,)
