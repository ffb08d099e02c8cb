"""A site that makes its work fail holds up no site of another organisation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from gridfleet.amqp import site_scheduler
from gridfleet.amqp.plant_commands import expire_commands
from gridfleet.amqp.site_scheduler import SiteScheduler, run_schedules
from gridfleet.kernel.db import Database
from gridfleet.kernel.tasks import Backoff, supervise
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite, partner_site
from support.servers.running_task import running


@pytest.fixture
async def sites(database: Database) -> list[PartnerSite]:
    """Sites of three organisations in STANDBY for a minute; the limits of the second cannot be read."""
    first = await partner_site(database)
    found = [first, *[await partner_site(database, first.plant.bench) for _ in range(2)]]
    for site in found:
        assert await site.send("command.mode", mode="STANDBY", expiresAt=soon(60)) == "ACCEPTED"
    await found[1].set_site(constraints='{"importLimitKw": "many"}')
    return found


@asynccontextmanager
async def supervised(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """One of the gateway's tasks, started again when it fails."""
    async with running(supervise("task", work, Backoff(first=0.1, longest=0.2))):
        yield


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.05)


async def set_aside(site: PartnerSite) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in await site.rows("SELECT consumer, reason FROM set_aside ORDER BY id")]


async def test_overrides_end_at_all_other_sites(sites: list[PartnerSite]) -> None:
    for site in sites:
        await site.set_site(override_expires_at=datetime.now(UTC))

    async def have_ended() -> bool:
        return [(await site.commands())[-1][1]["mode"] for site in (sites[0], sites[2])] == ["AUTO", "AUTO"]

    async with supervised(lambda: run_schedules(sites[0].database)):
        await until(have_ended)
        await asyncio.sleep(1.5)
    [(consumer, reason)] = await set_aside(sites[1])
    assert (consumer, reason.split(":")[0]) == ("sites", "ValidationError")
    assert await sites[1].site("override_mode") == ("STANDBY",)


async def test_a_site_that_failed_is_tried_again_after_five_minutes(sites: list[PartnerSite]) -> None:
    steering, later = SiteScheduler(sites[0].database), datetime.now(UTC) + timedelta(seconds=61)
    await steering.run_due(later)
    await sites[1].execute("UPDATE vcp_site SET constraints = '{}'")
    await steering.run_due(later + timedelta(minutes=4))
    assert await sites[1].site("override_mode") == ("STANDBY",)
    await steering.run_due(later + timedelta(minutes=6))
    assert await sites[1].site("override_mode") == (None,)
    assert len(await set_aside(sites[1])) == 1


async def test_no_fallback_starts_after_an_outage_while_a_site_that_failed_is_tried_again(
    sites: list[PartnerSite], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What partners sent during the outage waits in the broker: they were not silent."""
    site, failed = sites[:2]
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60})
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 0)
    steering, later = SiteScheduler(site.database), datetime.now(UTC) + timedelta(seconds=30)
    await failed.set_site(override_expires_at=datetime.now(UTC))
    await steering.run_due(later)
    assert len(await set_aside(failed)) == 1
    monkeypatch.setattr(site_scheduler, "CATCH_UP_SECONDS", 30)
    await failed.set_site(constraints="{}")
    await failed.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'terminating connection' USING ERRCODE = '57P01'; END $$"
    )
    await failed.execute("CREATE TRIGGER fail BEFORE UPDATE ON vcp_site FOR EACH ROW EXECUTE FUNCTION fail()")
    with pytest.raises(psycopg.OperationalError):
        await steering.run_due(later + timedelta(minutes=6))
    await failed.execute("DROP FUNCTION fail CASCADE")
    await steering.run_due(later + timedelta(minutes=6, seconds=1))
    assert await site.site("fallback_since") == (None,)


async def test_a_site_whose_statement_takes_too_long_is_set_aside_alone(sites: list[PartnerSite]) -> None:
    slow = sites[1]
    await slow.set_site(constraints="{}")
    await slow.execute(
        "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END $$"
    )
    await slow.execute(
        "CREATE TRIGGER delay BEFORE UPDATE ON vcp_site FOR EACH ROW"
        f" WHEN (NEW.plant_id = '{slow.plant.id}') EXECUTE FUNCTION delay()"
    )
    steering, later = SiteScheduler(slow.database), datetime.now(UTC) + timedelta(seconds=61)
    for minutes in (0, 1, 6):
        await steering.run_due(later + timedelta(minutes=minutes))

    assert [await site.site("override_mode") for site in sites] == [(None,), ("STANDBY",), (None,)]
    assert [consumer for consumer, _ in await set_aside(slow)] == ["sites", "sites"]


async def test_sites_that_are_slow_again_take_a_share_of_the_time(sites: list[PartnerSite]) -> None:
    """Each took two seconds of every run, so that other sites waited for minutes if an organisation had hundreds of them."""
    database = sites[0].database

    async def delay(statement: str) -> None:
        await sites[0].execute(
            f"CREATE OR REPLACE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement} RETURN NEW; END $$"
        )

    await sites[1].set_site(constraints="{}")
    await delay("RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';")
    await sites[0].execute("CREATE TRIGGER delay BEFORE UPDATE ON vcp_site FOR EACH ROW EXECUTE FUNCTION delay()")
    await sites[0].execute("CREATE SEQUENCE tries")  # what a sequence counts outlives the end of a transaction
    steering, later = SiteScheduler(database), datetime.now(UTC) + timedelta(seconds=61)
    await steering.run_due(later)
    await delay("PERFORM nextval('tries'), pg_sleep(30);")
    await steering.run_due(later + timedelta(minutes=6))
    assert await sites[0].rows("SELECT last_value < 3 FROM tries") == [(True,)]  # two seconds each, of three
    for _ in range(2):
        await steering.run_due(later + timedelta(minutes=6))
    assert await sites[0].rows("SELECT last_value FROM tries") == [(3,)]


async def test_other_organisations_have_their_turn_while_many_slow_sites_of_one_are_searched(sites: list[PartnerSite]) -> None:
    """Each took the time of a statement, half a minute, while all other sites waited."""
    slow, others = sites[1], [sites[0], sites[2]]
    org = slow.plant.organization_id
    await slow.execute(
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
        " SELECT lpad(n::text, 32, '0')::uuid, %(org)s, 'Plant', n::text, 'GATEWAY', 'PASSWORD', 'ACTIVE'"
        " FROM generate_series(1, 16) n"
    )
    await slow.execute(
        "INSERT INTO vcp_site (plant_id, override_mode, override_set_by, override_set_at, override_expires_at)"
        " SELECT p.id, override_mode, override_set_by, override_set_at, override_expires_at FROM vcp_site s, plant p"
        " WHERE s.plant_id = %(plant)s AND p.organization_id = %(org)s AND p.id <> s.plant_id"
    )
    # What a sequence counts outlives the end of a transaction. Here it is the time that statements would have taken.
    await slow.execute("CREATE SEQUENCE seconds MINVALUE 0")
    await slow.execute("CREATE TABLE waited (seconds int)")
    await slow.execute(
        "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF EXISTS (SELECT FROM plant WHERE id = NEW.plant_id AND organization_id = '{org}') THEN PERFORM setval('seconds',"
        " (SELECT last_value FROM seconds) + extract(epoch FROM current_setting('statement_timeout')::interval)::int);"
        " RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END IF;"
        " INSERT INTO waited SELECT last_value FROM seconds; RETURN NEW; END $$"
    )
    await slow.execute("CREATE TRIGGER delay BEFORE UPDATE ON vcp_site FOR EACH ROW EXECUTE FUNCTION delay()")
    steering, later = SiteScheduler(slow.database), datetime.now(UTC) + timedelta(seconds=61)
    await steering.run_due(later)

    assert [await site.site("override_mode") for site in others] == [(None,), (None,)]
    [(waited,)] = await slow.rows("SELECT max(seconds) FROM waited")
    assert waited <= 40, "half a minute until a statement has failed, and one turn of the slow organisation"
    await until_set_aside(steering, later, slow, 17)
    assert await slow.rows("SELECT count(*) FROM vcp_site WHERE override_mode IS NOT NULL") == [(17,)]


async def until_set_aside(steering: SiteScheduler, now: datetime, site: PartnerSite, count: int) -> None:
    """Run the scheduler until that many sites are set aside."""
    async with asyncio.timeout(60):
        while len(await set_aside(site)) < count:
            await steering.run_due(now)


async def test_commands_expire_at_all_other_sites(sites: list[PartnerSite]) -> None:
    await sites[0].execute("UPDATE plant_command SET expires_at = now()")

    async def have_expired() -> bool:
        return [(await site.log())[0][0] for site in (sites[0], sites[2])] == ["EXPIRED", "EXPIRED"]

    async with supervised(lambda: expire_commands(sites[0].database)):
        await until(have_expired)
        await asyncio.sleep(1.5)
    assert [status for _, _, status in await sites[1].commands()] == ["EXPIRED"]
    [(consumer, reason)] = await set_aside(sites[1])
    assert (consumer, reason.split(":")[0]) == ("commands", "ValidationError")


async def test_a_partner_is_notified_of_a_command_that_expired_at_a_site_that_cannot_be_read(sites: list[PartnerSite]) -> None:
    await sites[0].execute("UPDATE plant_command SET expires_at = now()")

    async def has_ended() -> bool:
        return [status for _, _, status in await sites[1].commands()] == ["EXPIRED"]

    async with supervised(lambda: expire_commands(sites[0].database)):
        await until(has_ended)
    assert [entry[:2] for entry in await sites[1].log()] == [("EXPIRED", "EXPIRED")]
    acks = [ack["ackStatus"] for ack in await sites[1].received() if ack["siteId"] == str(sites[1].plant.id)]
    assert acks == ["ACCEPTED", "EXPIRED"]
