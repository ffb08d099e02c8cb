"""Modes and schedules that a plant has applied and refuses when the service issues them again: they stay in force."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite

HOUR = 3600
REFUSED = pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])


def step(power: float) -> dict[str, Any]:
    return {"start": soon(-60), "durationSeconds": HOUR, "powerKw": power}


async def apply(site: PartnerSite, kind: str, **members: Any) -> None:
    await site.send(kind, **members)
    await site.acknowledge_newest("APPLIED")


async def open_contents(site: PartnerSite) -> list[Any]:
    return [content for _, content, status in await site.commands() if status in ("PENDING", "SENT")]


@REFUSED
async def test_a_mode_that_the_plant_had_stays(site: PartnerSite, answer: str) -> None:
    await apply(site, "command.mode", mode="DISCHARGE", expiresAt=soon(8 * HOUR))
    await apply(site, "command.mode", mode="CHARGE", expiresAt=soon(4 * HOUR))
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(HOUR))
    await site.acknowledge_newest("FAILED")
    assert await site.issue_due(1) == 1
    await site.acknowledge({await site.newest(): answer}, seconds=2)
    assert await site.site("override_mode") == ("CHARGE",)
    assert await site.issue_due(3) == 0, "until the plant connects"
    await site.acknowledge({}, seconds=60, connects=True)
    assert await site.issue_due(60) == 1
    assert [one["mode"] for one in await open_contents(site)] == ["CHARGE"]


@REFUSED
async def test_a_schedule_that_the_plant_had_stays(site: PartnerSite, answer: str) -> None:
    for revision in (1, 2):
        await apply(site, "schedule.set", scheduleId="s", revision=revision, intervals=[step(revision)])
    await site.send("schedule.set", scheduleId="s", revision=3, intervals=[step(3)])
    await site.acknowledge_newest("REJECTED")
    await site.issue_due(1)
    [again] = await site.rows("SELECT id FROM plant_command WHERE type = 'SCHEDULE' ORDER BY id DESC LIMIT 1")
    await site.acknowledge({again[0]: answer}, seconds=2)
    assert await site.site("schedule_id, schedule_revision, schedule_active") == ("s", 2, True)
    await site.issue_due(3)
    assert {one["powerKw"] for one in await open_contents(site) if "powerKw" in one} == {2}


async def test_a_mode_that_the_plant_applied_late_stays(site: PartnerSite) -> None:
    """The partner's own command has expired. The plant has applied the service's."""
    await apply(site, "command.mode", mode="DISCHARGE", expiresAt=soon(80 * HOUR))
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(60 * HOUR))
    await site.expire(25 * HOUR)
    await site.issue_due(25 * HOUR)
    await site.acknowledge({await site.newest(): "APPLIED"}, seconds=25 * HOUR)
    later = datetime.now(UTC) + timedelta(hours=26)
    standby = order(
        "command.mode",
        site.plant.id,
        slug=site.sender.key.slug,
        age=-26 * HOUR,
        mode="STANDBY",
        expiresAt=soon(30 * HOUR),
        issuedAt=later.isoformat(),
    )
    assert await site.take(standby, now=later) == "ACCEPTED"
    await site.acknowledge({await site.newest(): "FAILED"}, now=later)
    assert await site.issue_due(now=later) == 1
    await site.acknowledge({await site.newest(): "FAILED"}, now=later)
    assert await site.site("override_mode") == ("CHARGE",)


async def answer_an_expired_mode(site: PartnerSite, answer: str) -> None:
    """Order a mode after an applied one. Its command expires, and the plant answers its repetition 25 hours later."""
    await apply(site, "command.mode", mode="DISCHARGE", expiresAt=soon(80 * HOUR))
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(60 * HOUR))
    await site.expire(25 * HOUR)
    await site.issue_due(25 * HOUR)
    await site.acknowledge({await site.newest(): answer}, seconds=25 * HOUR)


async def test_a_mode_that_the_plant_never_had_gives_way(site: PartnerSite) -> None:
    await answer_an_expired_mode(site, "REJECTED")
    assert await site.site("override_mode") == ("DISCHARGE",)


async def test_a_schedule_that_failed_after_its_own_command_had_expired_stays(site: PartnerSite) -> None:
    """The partner has read EXPIRED, which says that the plant was away. It does not learn what becomes of a repetition."""
    later = {"start": soon(3 * HOUR), "durationSeconds": 900, "powerKw": 1}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[later])
    await site.expire(HOUR + 1)
    await site.issue_due(HOUR + 2)
    await site.acknowledge({await site.newest(): "FAILED"}, seconds=HOUR + 3)
    assert await site.site("schedule_id, schedule_active") == ("s", True)
    assert await site.issue_due(HOUR + 700) == 1
    [again] = await site.rows("SELECT id FROM plant_command WHERE type = 'SCHEDULE' ORDER BY id DESC LIMIT 1")
    await site.acknowledge({again[0]: "APPLIED"}, seconds=HOUR + 701)
    await site.issue_due(3 * HOUR + 1)
    assert [one["powerKw"] for one in await open_contents(site)] == [1]


async def test_a_mode_that_failed_after_its_own_command_had_expired_stays(site: PartnerSite) -> None:
    await answer_an_expired_mode(site, "FAILED")
    assert await site.site("override_mode") == ("CHARGE",)
    assert await site.issue_due(26 * HOUR) == 1
    assert [one["mode"] for one in await open_contents(site)] == ["CHARGE"]
