"""A setpoint that reaches its plant late, because the plant was away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gridfleet.domains.plants.commands.delivery import claim_due
from gridfleet.domains.vcp.confirmation.store import setpoint_in_force
from gridfleet.sdk.plant.commands import open_command
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite

HOUR = 3600


async def sent_after(site: PartnerSite, seconds: float) -> list[dict[str, Any]]:
    """Return the setpoints that are sent to the plant after this time, as it receives them."""
    async with site.database.transaction() as db:
        due = await claim_due(db, site.plant.bench.keyring, datetime.now(UTC) + timedelta(seconds=seconds), 100)
    payloads = [msgspec.json.decode(signed.message)["payload"] for signed in due]
    return [payload for payload in payloads if payload["type"] == "SITE_SETPOINT"]


async def test_a_step_of_a_schedule_ends_in_time(site: PartnerSite) -> None:
    step = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    for seconds, left in ((0, HOUR - 60), (HOUR / 2, HOUR / 2 - 60), (HOUR - 90, 30)):
        [setpoint] = await sent_after(site, seconds)
        assert abs(setpoint["params"]["durationSeconds"] - left) < 5
    assert (setpoint["powerKw"], setpoint["schedule"]) == (2, {"scheduleId": "s", "revision": 1})


async def test_a_partners_own_setpoint_keeps_its_duration(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=3, durationSeconds=600, expiresAt=soon(HOUR))
    [setpoint] = await sent_after(site, HOUR / 2)
    assert setpoint["params"] == {"durationSeconds": 600}


async def read_late(site: PartnerSite, seconds: float) -> dict[str, Any] | None:
    """Return the parameters of the setpoint that is sent now, as the plant's client reads it that much later."""
    now = datetime.now(UTC)
    async with site.database.transaction() as db:
        due = await claim_due(db, site.plant.bench.keyring, now, 100)
    late = int((now.timestamp() + seconds) * 1000)
    read = [open_command(one.message, key=site.plant.key, address=one.topic, now_milliseconds=late) for one in due]
    [setpoint] = [command for command in read if command.type == "SITE_SETPOINT"]
    return setpoint.params


@pytest.mark.parametrize("seconds", [0, 240, -240])
async def test_a_step_that_the_broker_kept_ends_in_time(site: PartnerSite, seconds: float) -> None:
    """The broker keeps a message of a plant that is away for five minutes. A plant whose clock is behind gets no longer one."""
    step = {"start": soon(-60), "durationSeconds": 960, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    params = await read_late(site, seconds)
    assert params is not None
    assert abs(params["durationSeconds"] - (900 - max(0, seconds))) < 5


async def test_a_partners_own_setpoint_that_the_broker_kept_has_its_duration(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    assert await read_late(site, 240) == {"durationSeconds": 600}


BLOCKS = """
    SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::int FROM pg_class
    WHERE oid = 'plant_command'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'plant_command'::regclass)
"""


async def test_the_setpoint_in_force_is_found_without_those_that_the_plant_refused(site: PartnerSite) -> None:
    """Ingest looks for it at each refusal, while the messages of all plants wait."""
    await site.send("command.site-setpoint", powerKw=1)
    await site.execute("DELETE FROM plant_command")
    await site.execute(
        "INSERT INTO plant_command (id, plant_id, type, instruction, status, requester_type, issued_at, expires_at,"
        " finished_at) SELECT gen_random_uuid(), %(plant)s, 'SITE_SETPOINT', '{}', 'REJECTED', 'API_KEY',"
        " now() + n * interval '1 ms', now(), now() FROM generate_series(1, 5000) AS n",
    )
    async with site.database.autocommit() as db:
        await db.execute("VACUUM ANALYZE plant_command")
    async with site.database.transaction() as db:
        await setpoint_in_force(db, site.plant.id)
        [[before]] = await (await db.execute(BLOCKS)).fetchall()
        assert await setpoint_in_force(db, site.plant.id) is None
        [[after]] = await (await db.execute(BLOCKS)).fetchall()
    assert 0 < after - before < 20


async def apply_too_late(site: PartnerSite) -> None:
    """Send a setpoint of 15 minutes that the plant applies in time. Its acknowledgement comes a minute after the expiry."""
    await site.send("command.site-setpoint", powerKw=3, durationSeconds=900)
    setpoint = await site.newest()
    await site.send_commands()
    await site.expire(301)
    await site.acknowledge({setpoint: "APPLIED"}, seconds=360)


async def test_the_step_goes_on_after_a_setpoint_that_was_acknowledged_too_late(site: PartnerSite) -> None:
    step = {"start": soon(-60), "durationSeconds": HOUR, "powerKw": 2}
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[step])
    await site.acknowledge_newest("APPLIED")
    await site.issue_due()
    await site.acknowledge_newest("APPLIED")
    await apply_too_late(site)
    await site.issue_due(899)
    assert [content.get("powerKw") for _, content, _ in await site.commands()] == [None, 2, 3]
    await site.issue_due(903)
    assert [content.get("powerKw") for _, content, _ in await site.commands()] == [None, 2, 3, 2]


async def test_a_setpoint_that_was_acknowledged_too_late_speaks_for_the_partner(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 600})
    await site.acknowledge_newest("APPLIED")
    await apply_too_late(site)
    await site.issue_due(1490)
    assert (await site.site("fallback_since"))[0] is None
    await site.issue_due(1510)
    assert (await site.site("fallback_since"))[0] is not None
