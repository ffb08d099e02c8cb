"""Commands of a plant that is away, after a clock was ahead: that of another gateway, or the same one before its correction."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.plants.commands.clocks import correct_due
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite
from support.clients.commands_at_work import issue

SECOND = timedelta(seconds=1)
STANDBY = {"mode": "STANDBY", "expiresAt": soon(36_000)}
CHARGE = {"mode": "CHARGE", "expiresAt": soon(36_000)}


async def delivered(site: PartnerSite, now: datetime) -> list[UUID]:
    """Connect the plant, and return what it receives within ten seconds, in the order of the first copies."""
    await site.acknowledge({}, now=now, connects=True)
    found: list[UUID] = []
    for seconds in range(10):
        found += [one for one in await site.send_commands(now=now + seconds * SECOND) if one not in found]
    return found


@pytest.mark.parametrize("ahead", [2, 480])
@pytest.mark.parametrize(
    ("first", "second"), [(STANDBY, {"mode": "AUTO"}), ({"mode": "EMERGENCY_STOP"}, {"mode": "AUTO"}), (STANDBY, CHARGE)]
)
async def test_the_mode_that_came_last_is_executed_last(
    site: PartnerSite, first: dict[str, Any], second: dict[str, Any], ahead: int
) -> None:
    """Otherwise the plant would stay in the mode that came first, and have confirmed both."""
    now = datetime.now(UTC)
    assert await site.send("command.mode", now=now + ahead * SECOND, **first) == "ACCEPTED"
    assert await site.send("command.mode", now=now + SECOND, **second) == "ACCEPTED"
    modes = {one: content["mode"] for one, content in await site.rows("SELECT id, instruction FROM plant_command")}
    assert [modes[one] for one in await delivered(site, now + 60 * SECOND)] == [first["mode"], second["mode"]]


async def test_what_is_issued_with_a_command_keeps_its_place(site: PartnerSite) -> None:
    """The mode that ends a fallback is issued before the setpoint, which it would end."""
    now = datetime.now(UTC)
    await site.send("config.fallback", now=now, fallback={"mode": "BACKUP", "afterSeconds": 60})
    await site.issue_due(now=now + 61 * SECOND)
    await site.send("command.device.BAT1", now=now + 100 * SECOND, action="stop", expiresAt=soon(3600))
    waits = await site.newest()
    await site.set_site(fallback_since=now + 61 * SECOND)

    assert await site.send("command.site-setpoint", now=now + 80 * SECOND, powerKw=1, expiresAt=soon(3600)) == "ACCEPTED"
    kinds = dict(await site.rows("SELECT id, type FROM plant_command"))
    received = await delivered(site, now + 81 * SECOND)
    assert [kinds[one] for one in received[received.index(waits) + 1 :]] == ["MODE_CHANGE", "SITE_SETPOINT"]


async def test_a_user_s_command_follows_what_waits(site: PartnerSite) -> None:
    now = datetime.now(UTC)
    await site.send("command.device.BAT1", now=now + 30 * SECOND, action="stop", expiresAt=soon(3600))
    first = await site.newest()
    second = await issue(site.plant, "set_power", {"power_kw": 1})
    assert await delivered(site, now + 10 * SECOND) == [first, second]


async def test_a_due_time_of_a_clock_ahead_becomes_the_present(site: PartnerSite) -> None:
    """A gateway whose clock was ahead has claimed the command, and was ended before it sent it."""
    await site.send("command.mode", **STANDBY)
    [command] = await site.send_commands(seconds=480)
    assert await site.send_commands(seconds=120) == []
    async with site.database.transaction() as db:
        assert await correct_due(db) == 1
        assert await correct_due(db) == 0
    assert await site.send_commands(seconds=1) == [command]


async def test_withdrawn_commands_do_not_become_due(site: PartnerSite) -> None:
    await site.send("command.mode", **STANDBY)
    await site.send("command.mode", mode="EMERGENCY_STOP")
    async with site.database.transaction() as db:
        assert await correct_due(db) == 0
