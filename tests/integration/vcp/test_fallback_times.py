"""When silence counts: what a partner ordered for a time speaks for it until its end, and only then."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gridfleet.amqp import site_scheduler
from gridfleet.domains.vcp.scheduler import correct_silence, reopen_early_steps
from gridfleet.domains.vcp.shards import SHARDS, shard_of
from support.builders.accounts import add_organization
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite
from support.builders.telemetry_records import RecordedPlant

YEAR = 365 * 86_400


def step(start: float, length: int) -> dict[str, Any]:
    return {"start": soon(start), "durationSeconds": length, "powerKw": 1}


@pytest.fixture
async def waiting(site: PartnerSite) -> PartnerSite:
    """A site whose fallback takes hold after a minute of silence."""
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60})
    await site.acknowledge_newest("APPLIED")
    return site


async def falls_back(site: PartnerSite, seconds: float) -> bool:
    await site.issue_due(seconds)
    return (await site.site("fallback_since"))[0] is not None


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("config.constraints", {"constraints": {"importLimitKw": 9}}),
        ("command.device.BAT1", {"action": "stop"}),
        ("schedule.set", {"scheduleId": "s", "revision": 1, "intervals": [step(0, 1)]}),
    ],
)
async def test_another_order_does_not_shorten_a_running_setpoint(
    waiting: PartnerSite, kind: str, members: dict[str, Any]
) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    await waiting.send(kind, **members)
    assert not await falls_back(waiting, 500)
    assert not await falls_back(waiting, 655)
    assert await falls_back(waiting, 662)


async def test_a_new_setpoint_replaces_the_end_of_the_one_before(waiting: PartnerSite) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    await waiting.send("command.site-setpoint", powerKw=2, durationSeconds=100)
    assert not await falls_back(waiting, 155)
    assert await falls_back(waiting, 162)


@pytest.mark.parametrize("refused", [{"durationSeconds": 300}, {}])
@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
async def test_a_refused_setpoint_leaves_the_end_of_the_one_before(
    waiting: PartnerSite, answer: str, refused: dict[str, Any]
) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    await waiting.acknowledge_newest("APPLIED")
    await waiting.send("command.site-setpoint", powerKw=300, **refused)
    await waiting.acknowledge_newest(answer)
    assert not await falls_back(waiting, 655)
    assert await falls_back(waiting, 662)


async def test_a_refused_setpoint_does_not_bring_back_one_that_a_mode_ended(waiting: PartnerSite) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    await waiting.acknowledge_newest("APPLIED")
    await waiting.send("command.mode", mode="AUTO")
    await waiting.acknowledge_newest("APPLIED")
    await waiting.send("command.site-setpoint", powerKw=300, durationSeconds=300)
    await waiting.acknowledge_newest("REJECTED")
    assert await falls_back(waiting, 62)


async def test_a_scheduler_that_has_just_started_waits(waiting: PartnerSite, monkeypatch: pytest.MonkeyPatch) -> None:
    later = datetime.now(UTC) + timedelta(minutes=2)
    await site_scheduler.SiteScheduler(waiting.database).run_due(later)
    assert await waiting.site("fallback_since") == (None,)
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 0)
    await site_scheduler.SiteScheduler(waiting.database).run_due(later)
    assert await waiting.site("fallback_since") == (later,)


async def test_a_scheduler_that_was_suspended_waits(waiting: PartnerSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands wait at the broker meanwhile. Its connections to the database stay open, so no error shows the interruption."""
    later = datetime.now(UTC) + timedelta(minutes=2)
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 0)
    scheduler = site_scheduler.SiteScheduler(waiting.database)
    await scheduler.run_due(datetime.now(UTC))
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 30)
    monkeypatch.setattr(site_scheduler, "HANGING_SECONDS", 0.2)
    await asyncio.sleep(0.3)
    await scheduler.run_due(later)
    assert await waiting.site("fallback_since") == (None,)


async def test_a_fallback_starts_in_the_process_that_reads_the_partners_commands(
    waiting: PartnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that should read them may hang, and they wait for it."""
    later = datetime.now(UTC) + timedelta(minutes=2)
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 0)
    own = shard_of(waiting.sender.key.organization_id)
    others = [shard for shard in range(SHARDS) if shard != own]
    await site_scheduler.SiteScheduler(waiting.database, lambda: others).run_due(later)
    assert await waiting.site("fallback_since") == (None,)
    await site_scheduler.SiteScheduler(waiting.database, lambda: [own]).run_due(later)
    assert await waiting.site("fallback_since") == (later,)


@pytest.mark.parametrize("answer", ["REJECTED", "FAILED"])
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("command.site-setpoint", {"powerKw": 3, "durationSeconds": 86_400}),
        ("command.mode", {"mode": "STANDBY", "expiresAt": soon(86_400)}),
        ("schedule.set", {"scheduleId": "s", "revision": 1, "intervals": [step(0, 86_400)]}),
    ],
)
async def test_what_the_plant_refused_does_not_speak_for_the_partner(
    waiting: PartnerSite, kind: str, members: dict[str, Any], answer: str
) -> None:
    await waiting.send(kind, **members)
    command = await waiting.newest()
    assert not await falls_back(waiting, 62)
    await waiting.acknowledge({command: answer})
    assert await falls_back(waiting, 63)


async def test_a_setpoint_that_never_arrived_does_not_speak_for_the_partner(waiting: PartnerSite) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=86_400)
    assert not await falls_back(waiting, 299)
    await waiting.expire(301)
    assert await falls_back(waiting, 302)


async def test_auto_with_a_far_end_does_not_switch_the_fallback_off(waiting: PartnerSite) -> None:
    await waiting.send("command.mode", mode="AUTO", expiresAt=soon(YEAR))
    assert not await falls_back(waiting, 58)
    assert await falls_back(waiting, 62)


async def test_silence_counts_from_the_end_of_an_override_or_a_schedule(waiting: PartnerSite) -> None:
    await waiting.send("command.mode", mode="STANDBY", expiresAt=soon(300))
    await waiting.send("schedule.set", scheduleId="s", revision=1, intervals=[step(0, 600)])
    assert not await falls_back(waiting, 301)
    assert not await falls_back(waiting, 365)
    assert not await falls_back(waiting, 601)
    assert not await falls_back(waiting, 655)
    assert await falls_back(waiting, 662)


async def test_a_setpoint_does_not_outlive_the_mode_that_replaced_it(waiting: PartnerSite) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=86_400)
    await waiting.send("command.mode", mode="STANDBY", expiresAt=soon(100))
    assert not await falls_back(waiting, 101)
    assert await falls_back(waiting, 162)


async def test_a_setpoint_does_not_outlive_the_step_that_replaced_it(waiting: PartnerSite) -> None:
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=86_400)
    await waiting.acknowledge_newest("APPLIED")
    await waiting.send("schedule.set", scheduleId="s", revision=1, intervals=[step(0, 100)])
    assert not await falls_back(waiting, 1)
    await waiting.acknowledge_newest("APPLIED")
    assert not await falls_back(waiting, 155)
    assert await falls_back(waiting, 162)


@pytest.mark.parametrize(("members", "ends"), [({}, 60), ({"durationSeconds": 600}, 660)])
async def test_silence_counts_from_the_correction_of_a_clock_that_was_ahead(
    waiting: PartnerSite, members: dict[str, Any], ends: float
) -> None:
    await waiting.send("command.site-setpoint", now=datetime.now(UTC) + timedelta(days=300), powerKw=3, **members)

    async with waiting.database.transaction() as db:
        assert await correct_silence(db) == 1
        assert await correct_silence(db) == 0

    assert not await falls_back(waiting, ends - 5)
    assert await falls_back(waiting, ends + 2)


async def test_a_setpoint_of_before_the_clock_was_ahead_keeps_its_end(waiting: PartnerSite) -> None:
    """It ended earlier with each message that arrived while the clock was ahead: the schedule or the fallback replaced it."""
    await waiting.send("command.site-setpoint", powerKw=3, durationSeconds=14_400)
    before = await waiting.rows("SELECT setpoint_ends_at FROM vcp_site WHERE plant_id = %(plant)s")
    ahead = datetime.now(UTC) + timedelta(hours=1)
    assert await waiting.send("config.fallback", now=ahead, fallback={"mode": "STANDBY", "afterSeconds": 60}) == "ACCEPTED"
    async with waiting.database.transaction() as db:
        assert await correct_silence(db) == 1
    assert await waiting.rows("SELECT setpoint_ends_at FROM vcp_site WHERE plant_id = %(plant)s") == before


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_a_site_that_a_clock_ahead_has_opened_has_its_commands_again(site: PartnerSite, is_foreign: bool) -> None:
    """Unless a command of the plant's former organisation would count too, which such a clock has issued before the move."""
    await site.send("command.mode", mode="CHARGE", expiresAt=soon(3600))
    await site.acknowledge_newest("APPLIED")
    await site.set_site(opened_at=datetime.now(UTC) + timedelta(hours=1))
    if is_foreign:
        seller = (await add_organization(site.database)).id
        await site.execute(
            "INSERT INTO plant_command SELECT (jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(),"
            " 'issued_at', now() + interval '30 minutes', 'organization_id', %(seller)s::uuid))).* FROM plant_command c",
            {"seller": seller},
        )

    async with site.database.transaction() as db:
        assert await correct_silence(db) == (0 if is_foreign else 1)
        assert await correct_silence(db) == 0

    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    [(refused,)] = await site.rows("SELECT id FROM plant_command WHERE instruction->>'mode' = 'STANDBY'")
    await site.acknowledge({refused: "REJECTED"})
    assert await site.site("override_mode") == ((None,) if is_foreign else ("CHARGE",))


async def test_a_clock_that_is_behind_makes_no_partner_silent(waiting: PartnerSite) -> None:
    """A machine may start without a time server, long before the time of its partners' last commands."""
    true_time = datetime.now(UTC) + timedelta(days=300)
    await waiting.send("command.site-setpoint", now=true_time, powerKw=3)
    recorded = RecordedPlant(waiting.database, waiting.plant.organization_id, waiting.plant.id)
    await recorded.write(None, ["a"], {true_time: [1.0]})

    async with waiting.database.transaction() as db:
        assert await correct_silence(db) == 0

    await waiting.issue_due(now=true_time + timedelta(seconds=55))
    assert (await waiting.site("fallback_since"))[0] is None


@pytest.mark.parametrize("is_behind", [False, True])
async def test_a_step_that_a_clock_ahead_has_issued_is_issued_at_its_time(site: PartnerSite, is_behind: bool) -> None:
    """If the clock is behind now, the steps were issued at their times."""
    steps = [step(start, 900) for start in (-60, 840, 1740, 2640)]
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps)
    for seconds in (0, 845, 1745):
        await site.issue_due(seconds)
        await site.acknowledge({await site.newest(): "APPLIED"}, seconds=seconds)
    if is_behind:
        recorded = RecordedPlant(site.database, site.plant.organization_id, site.plant.id)
        await recorded.write(None, ["a"], {datetime.now(UTC) + timedelta(days=1): [1.0]})
    count = len(await site.commands())
    async with site.database.transaction() as db:
        assert await reopen_early_steps(db) == (0 if is_behind else 2)
        assert await reopen_early_steps(db) == 0
    issued = []
    for seconds in (5, 835, 845, 1745):
        await site.issue_due(seconds)
        issued.append(len(await site.commands()) - count)
    assert issued == ([0, 0, 0, 0] if is_behind else [0, 0, 1, 2])
