"""The newest telemetry events of an organisation wait for its vhosts, up to a number of bytes. Older ones are dropped."""

import asyncio
import os

import psycopg
import pytest
from pydantic import SecretStr

from gridfleet.amqp import event_upkeep
from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.domains.partner_events import queue, store
from gridfleet.domains.partner_events.models import NewEvent, Walk
from gridfleet.domains.partner_events.queue import drop_surplus, may_have_surplus, queue_events
from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_routes import EventKind
from support.builders.counters import value_of
from support.builders.partner_site import PartnerSite, partner_site
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

MOST = 3_000_000


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_BYTES", MOST)


async def queue_random(site: PartnerSite, count: int, kind: EventKind = EventKind.TELEMETRY, size: int = 1_000) -> None:
    """Queue events whose bodies the database cannot compress."""
    org, plant = site.plant.organization_id, site.plant.id
    async with site.database.transaction() as db:
        await queue_events(db, [NewEvent(new_id(), org, plant, None, kind, os.urandom(size)) for _ in range(count)])


async def waiting(site: PartnerSite, kinds: str = "kind = 'telemetry'") -> list[int]:
    rows = await site.rows(f"SELECT id FROM partner_event WHERE organization_id = %(org)s AND {kinds} ORDER BY id")
    return [event_id for (event_id,) in rows]


async def test_without_a_connection_the_newest_telemetry_waits(
    database: Database, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All waited for a day, so a partner whose programs held all connections of its vhost could fill the database's disk."""
    monkeypatch.setattr(event_upkeep, "UPKEEP_SECONDS", 0.5)
    busy = await partner_site(database)  # neither this key nor the other has a vhost at the broker
    quiet = await partner_site(database, busy.plant.bench)
    for kind in EventKind:
        await queue_random(busy, 10, kind)
    await queue_random(busy, 6_000)
    await queue_random(quiet, 10)
    telemetry, others, few = await waiting(busy), await waiting(busy, "kind <> 'telemetry'"), await waiting(quiet)
    counter = metrics.PARTNER_EVENTS_DROPPED.labels("surplus")
    counted = value_of(counter)
    settings = broker.settings.model_copy(update={"broker_url": SecretStr(broker.url)})
    async with (
        open_database(database.url, name="gateway", size=6) as own,
        running(PartnerGateway(settings, own, busy.plant.bench.keyring).run()),
        asyncio.timeout(90),
    ):
        while value_of(counter) == counted:
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)  # some more times
    kept = await waiting(busy)
    assert kept == telemetry[-len(kept) :]
    assert 0.75 * MOST < len(kept) * 1_000 < MOST
    assert value_of(counter) - counted == len(telemetry) - len(kept)
    assert (await waiting(busy, "kind <> 'telemetry'"), await waiting(quiet)) == (others, few)


async def test_large_bodies_count_as_stored(database: Database) -> None:
    site = await partner_site(database)
    await queue_random(site, 40, size=100_000)
    before = await waiting(site)
    assert await drop_surplus(database, site.plant.organization_id, 0, list) == 11
    assert await waiting(site) == before[11:]


async def test_events_that_are_being_published_stay(database: Database) -> None:
    site = await partner_site(database)
    await queue_random(site, 6_000)
    before = await waiting(site)
    dropped = await drop_surplus(database, site.plant.organization_id, 0, lambda: before[:1_000])
    kept = await waiting(site)
    assert kept == before[:1_000] + before[1_000 + dropped :]
    assert 0.75 * MOST < (len(kept) - 1_000) * 1_000 < MOST


async def test_without_much_that_waits_nothing_is_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    site = await partner_site(database)
    found = []
    for most in (MOST, 2 * 1024 * MOST):
        monkeypatch.setattr(queue, "MOST_BYTES", most)
        await queue_random(site, 3_000)
        async with database.transaction() as db:
            found.append(await may_have_surplus(db))
    assert found == [True, False]


async def test_a_step_reads_only_its_events(database: Database) -> None:
    """Also before the table is analyzed. A statement that took too long would end the gateway for all partners."""
    large = await partner_site(database)
    small = await partner_site(database, large.plant.bench)
    for site, count in ((small, 5_000), (large, 200_000), (small, 5_000)):
        await site.execute(
            "INSERT INTO partner_event (event_id, organization_id, kind, body) SELECT gen_random_uuid(), %(org)s, 'telemetry',"
            f" '' FROM generate_series(1, {count})"
        )
    read = []
    for site in (large, small):
        walk: Walk | None = Walk(2**63 - 1, 0, 0)
        while walk:
            async with await psycopg.AsyncConnection.connect(database.url) as db:  # its statistics are of this step only
                walk = await store.delete_surplus(db, site.plant.organization_id, 0, walk, MOST, 200, [], 2_000)
                cursor = await db.execute(
                    "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'partner_event'"
                )
                read.append((await cursor.fetchall())[0][0])
    assert [len(await waiting(site)) for site in (large, small)] == [MOST // 201, 10_000]
    assert len(read) == 100 + 1 + 5 + 1
    assert max(read) < 10_000
