"""Emergency stops beside processes that hold, or are sending, an earlier command of the plant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, CLOCK_SECONDS, START_SECONDS, SignedCommand, claim_due
from gridfleet.domains.plants.commands.ending.store import withdraw_waiting
from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.vcp.acknowledgements import follow_commands
from support.builders.interleaving import pause_reads, slow_look_up_of_plants, until_blocked
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite


async def setpoint(site: PartnerSite, *, seconds: float = 0) -> UUID:
    """Issue a setpoint that is valid for an hour, so many seconds from now."""
    now = datetime.now(UTC) + timedelta(seconds=seconds)
    assert await site.send("command.site-setpoint", now=now, powerKw=1, expiresAt=soon(3600)) == "ACCEPTED"
    return await site.newest()


async def stop(site: PartnerSite) -> None:
    assert await site.send("command.mode", mode="EMERGENCY_STOP") == "ACCEPTED"


async def emergencies(site: PartnerSite) -> list[UUID]:
    rows = await site.rows("SELECT id FROM plant_command WHERE type = 'EMERGENCY' ORDER BY due_at, id")
    return [row[0] for row in rows]


@asynccontextmanager
async def claiming(site: PartnerSite) -> AsyncIterator[list[SignedCommand]]:
    """Claim what is due as another gateway, whose transaction commits at the end of the block."""
    async with site.database.transaction() as db:
        yield await claim_due(db, site.plant.bench.keyring, datetime.now(UTC), 100)


async def test_a_command_that_is_locked_during_a_stop_never_leaves(site: PartnerSite) -> None:
    command = await setpoint(site)
    async with site.database.transaction() as other:
        await other.execute("SELECT FROM plant_command WHERE id = %s FOR NO KEY UPDATE", (command,))
        await stop(site)
    [first, again] = await emergencies(site)
    assert await site.send_commands() == [first]
    assert await site.send_commands(seconds=START_SECONDS + CLOCK_SECONDS + 0.1) == [again]
    for seconds in (5, 60, 180):
        assert command not in await site.send_commands(seconds)

    async with site.database.transaction() as db:
        await expire_due(db, datetime.now(UTC), follow_commands)
    assert (await site.log())[0][:2] == ("EXPIRED", "EXPIRED")
    async with site.database.transaction() as db:
        await expire_due(db, datetime.now(UTC), None)
    assert await site.rows("SELECT 1 FROM plant_command_withdrawn") == []


async def test_a_locked_command_does_not_leave_after_the_stop_has_ended(site: PartnerSite) -> None:
    command = await setpoint(site)
    async with site.database.transaction() as other:
        await other.execute("SELECT FROM plant_command WHERE id = %s FOR NO KEY UPDATE", (command,))
        await stop(site)
        assert await site.send("command.mode", mode="AUTO") == "ACCEPTED"
    for seconds in (0, 2, 5, 180):
        assert command not in await site.send_commands(seconds)


async def test_a_gateway_whose_clock_is_behind_sends_nothing_that_a_stop_ended(site: PartnerSite) -> None:
    command = await setpoint(site, seconds=-20)
    await stop(site)
    assert command not in await site.send_commands(seconds=-10)


@pytest.mark.parametrize("commits", ["before the stop", "after the stop"])
async def test_a_command_in_flight_during_a_stop_is_followed_by_another_stop(site: PartnerSite, commits: str) -> None:
    """Another gateway publishes the setpoint after the emergency: the plant would go on."""
    command = await setpoint(site)
    async with claiming(site) as in_flight:
        if commits == "after the stop":
            await stop(site)
    if commits == "before the stop":
        await stop(site)
    assert [signed.command.id for signed in in_flight] == [command]

    first, again = await emergencies(site)
    left = await site.send_commands()
    left.append(in_flight[0].command.id)  # the other gateway publishes it only now
    assert await site.send("command.mode", mode="AUTO") == "ACCEPTED"
    auto = await site.newest()
    left += await site.send_commands()
    left += await site.send_commands(seconds=START_SECONDS + CLOCK_SECONDS + 0.1)
    left += await site.send_commands(seconds=START_SECONDS + CLOCK_SECONDS + 0.2)
    assert left == [first, command, again, auto], "AUTO waits until the stop has left for the last time"


async def test_a_command_whose_claim_began_long_ago_is_followed_by_another_stop(
    site: PartnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up of plants may take longer than a claim lasts, and the command may be published after it."""
    command = await setpoint(site)
    with monkeypatch.context() as patch:
        slow_look_up_of_plants(patch, CLAIM_SECONDS + 0.2)
        async with claiming(site) as in_flight:
            pass
    assert [(signed.command.id, signed.is_late) for signed in in_flight] == [(command, False)]
    await stop(site)
    assert len(await emergencies(site)) == 2


async def test_a_stop_beside_nothing_is_sent_once(site: PartnerSite) -> None:
    await setpoint(site)
    await site.send_commands()
    await setpoint(site)
    await stop(site)
    assert len(await emergencies(site)) == 1


async def test_what_was_claimed_too_long_ago_is_not_published(site: PartnerSite) -> None:
    await setpoint(site)
    async with claiming(site) as in_flight:
        pass
    assert not in_flight[0].is_late
    assert in_flight[0]._replace(deadline=in_flight[0].deadline - START_SECONDS).is_late


async def test_a_claim_that_began_before_a_stop_takes_nothing_that_the_stop_withdrew(site: PartnerSite) -> None:
    """The claim's snapshot does not show the withdrawal, and its time is before the end of the command."""
    await setpoint(site)
    await pause_reads(site.database, "plant")
    began = datetime.now(UTC)

    async def claim() -> list[SignedCommand]:
        async with site.database.transaction() as db:
            await db.execute("SET LOCAL test.pause = 'on'")
            return await claim_due(db, site.plant.bench.keyring, began, 100)

    async with site.database.transaction() as other:
        await other.execute("SELECT pg_advisory_xact_lock(1)")
        claiming = asyncio.create_task(claim())
        await until_blocked(site.database)
        await stop(site)
    assert await claiming == []
    [stop_command] = await emergencies(site)
    assert await site.send_commands() == [stop_command]


async def test_a_claim_that_commits_while_a_stop_withdraws_is_seen(site: PartnerSite) -> None:
    await setpoint(site)
    await pause_reads(site.database, "plant_command")

    async def withdraw() -> bool:
        async with site.database.transaction() as db:
            await db.execute("SET LOCAL test.pause = 'on'")
            return await withdraw_waiting(db, site.plant.id, datetime.now(UTC), timedelta(minutes=1))

    async with site.database.transaction() as other:
        await other.execute("SELECT pg_advisory_xact_lock(1)")
        withdrawing = asyncio.create_task(withdraw())
        await until_blocked(site.database)
        async with claiming(site) as in_flight:
            pass
    assert len(in_flight) == 1
    assert await withdrawing, "the claimed command may be published after the stop"


@pytest.mark.parametrize("ahead", [CLOCK_SECONDS, -CLOCK_SECONDS])
async def test_clocks_that_differ_hide_no_command_in_flight_from_a_stop(site: PartnerSite, ahead: float) -> None:
    """Another gateway, whose clock is ahead or behind, has claimed the setpoint and not yet published it."""
    command = await setpoint(site, seconds=-10)
    async with site.database.transaction() as db:
        now = datetime.now(UTC) + timedelta(seconds=ahead)
        in_flight = await claim_due(db, site.plant.bench.keyring, now, 100)
    assert [signed.command.id for signed in in_flight] == [command]

    moment = datetime.now(UTC)
    assert await site.send("command.mode", now=moment, mode="EMERGENCY_STOP") == "ACCEPTED"
    [_, again] = await emergencies(site)
    published = moment + timedelta(seconds=START_SECONDS)
    seen_by_the_other = published + timedelta(seconds=ahead - 0.1)
    assert again not in await site.send_commands(now=seen_by_the_other), "the setpoint can still be published"
    assert again in await site.send_commands(now=published + timedelta(seconds=CLOCK_SECONDS))


async def reason_of(site: PartnerSite, command: UUID) -> str | None:
    [(reason,)] = [row[1:] for row in await site.rows("SELECT id, reason->>'code' FROM plant_command") if row[0] == command]
    assert reason is None or isinstance(reason, str)
    return reason


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_command_that_a_stop_withdrew_says_so(site: PartnerSite, is_locked: bool) -> None:
    command = await setpoint(site)
    async with site.database.transaction() as other:
        if is_locked:
            await other.execute("SELECT FROM plant_command WHERE id = %s FOR NO KEY UPDATE", (command,))
        await stop(site)
    await site.expire()
    assert await reason_of(site, command) == "EMERGENCY_STOPPED"
    [step] = await site.rows("SELECT reason->>'code' FROM plant_command_transition WHERE status = 'EXPIRED'")
    assert step == ("EMERGENCY_STOPPED",)


async def test_a_plant_that_obeys_a_withdrawn_command_before_the_sweep_leaves_the_reason(site: PartnerSite) -> None:
    command = await setpoint(site)
    assert await site.send_commands() == [command]
    await stop(site)
    await site.acknowledge({command: "RECEIVED"})
    assert await reason_of(site, command) == "EMERGENCY_STOPPED"
    await site.acknowledge({command: "APPLIED"})
    assert await reason_of(site, command) == "APPLIED_LATE"


async def test_a_command_whose_time_was_over_before_the_stop_was_not_withdrawn(site: PartnerSite) -> None:
    command = await setpoint(site)
    await site.execute("UPDATE plant_command SET expires_at = now() - interval '1 second'")
    await stop(site)
    await site.expire()
    assert await reason_of(site, command) == "NOT_SENT"
