"""The command log keeps every command, and a bounded part of what a partner sends."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gridfleet.domains.vcp.intake import take_command
from gridfleet.domains.vcp.models import PartnerMessage
from support.builders.partner_commands import order, soon
from support.builders.partner_site import PartnerSite

NOTE = "x" * 6_000
LONGEST_NOTE = "x" * 60_000


def later(seconds: float = 600) -> str:
    """Return a time in the future as the service writes it."""
    return soon(seconds).replace("+00:00", "Z")


async def payloads(site: PartnerSite) -> list[dict[str, Any]]:
    return [row[0] for row in await site.rows("SELECT payload FROM vcp_command ORDER BY id")]


async def test_refused_messages_fill_a_bounded_part_of_the_disk(site: PartnerSite) -> None:
    """A key may send any number of them, and each entry is kept for two years."""

    def refused() -> PartnerMessage:
        return order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw="1", note=NOTE)

    async with site.database.transaction() as db:
        for _ in range(1_100):
            await take_command(db, site.sender, refused(), datetime.now(UTC), 600)
    found = [len(str(payload)) for payload in await payloads(site)]
    assert len(found) == len(await site.received()) == 1_100
    assert [size > len(NOTE) for size in found] == [True] * 1_000 + [False] * 100
    assert {tuple(entry) for entry in await site.log()} == {("REJECTED", "REJECTED", "MALFORMED", True)}

    await site.execute("UPDATE vcp_command SET created_at = created_at - interval '1 hour'")
    await site.take(refused())
    assert len(str((await payloads(site))[-1])) > len(NOTE), "an hour later"


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("command.site-setpoint", {"powerKw": 13, "durationSeconds": 900}),
        ("command.device", {"deviceId": "BAT1", "action": "set_power", "params": {"power_kw": 5}}),
        ("command.mode", {"mode": "CHARGE", "powerKw": 5}),
        ("config.constraints", {"constraints": {"importLimitKw": None, "exportLimitKw": 30}}),
        ("config.fallback", {"fallback": {"mode": "STANDBY", "afterSeconds": None}}),
    ],
)
async def test_an_accepted_command_is_kept_with_the_members_that_the_service_knows(
    site: PartnerSite, kind: str, members: dict[str, Any]
) -> None:
    if kind == "command.mode":
        members = {**members, "expiresAt": later()}  # not earlier: a run of all tests takes longer than that
    assert await site.send(kind, **members, note=LONGEST_NOTE, correlationId="c") == "ACCEPTED"
    [payload] = await payloads(site)
    assert len(str(payload)) < 1_024
    assert {name: payload.pop(name) for name in members} == members
    assert payload.keys() == {"messageId", "siteId", "issuedAt", "correlationId"}


async def test_a_command_is_kept_without_unknown_members_of_its_members(site: PartnerSite) -> None:
    interval = {"start": later(60), "durationSeconds": 900, "powerKw": 1}
    noted = {**interval, "note": LONGEST_NOTE}
    assert await site.send("schedule.set", scheduleId="s", revision=1, intervals=[noted]) == "ACCEPTED"
    assert await site.send("config.constraints", constraints={"importLimitKw": 5, "note": LONGEST_NOTE}) == "ACCEPTED"
    schedule, limits = await payloads(site)
    assert (schedule["intervals"], limits["constraints"]) == ([interval], {"importLimitKw": 5})


async def test_digits_of_times_are_not_kept(site: PartnerSite) -> None:
    """The decoder accepts any number of them."""
    issued = datetime.now(UTC).replace(tzinfo=None).isoformat() + "0" * 60_000 + "Z"
    assert await site.send("command.site-setpoint", powerKw=1, issuedAt=issued) == "ACCEPTED"
    [payload] = await payloads(site)
    assert len(str(payload)) < 1_024
