"""Which events of which plants which partners receive: written in the transaction of their cause."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gridfleet.domains.ingest.cached_plants import CachedDevice
from gridfleet.domains.partner_events.models import QueuedEvent
from gridfleet.domains.partner_events.queue import drop_stale, subscribed_plants
from gridfleet.domains.partner_events.queue_starts import QueueStarts
from gridfleet.domains.partners.queues import set_queues
from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.presence.records import PlantSeen, record_presence
from gridfleet.domains.vcp.events.recipients import recipients, served_vhosts
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.alerting import operator
from support.builders.partner_commands import sending_key
from support.builders.partner_site import PartnerSite, add_key
from support.builders.telemetry_records import RecordedPlant

SIGNALS = [{"key": "p", "field": "power", "unit": "kW", "scale": 0.1}, {"key": "fault", "bit": 0, "word": "status"}]


def ago(**parts: float) -> str:
    return (datetime.now(UTC) - timedelta(**parts)).isoformat()


async def events(site: PartnerSite, kind: str) -> list[tuple[Any, dict[str, Any]]]:
    """(event id, content) of what waits."""
    rows = await site.rows(f"SELECT event_id, body FROM partner_event WHERE kind = '{kind}' ORDER BY id")
    return [(event_id, json.loads(body)) for event_id, body in rows]


async def test_fresh_measurements_are_published_decoded(site: PartnerSite) -> None:
    await site.plant.add_device("INV1", SIGNALS)
    time = datetime.now(UTC).replace(microsecond=0)
    message = site.plant.message(
        {
            "time": time.isoformat(),
            "fields": {"load": 2, "gone": None},
            "devices": [
                {"id": "INV1", "fields": {"power": 42, "status": 3, "undeclared": 1}},
                {"id": "NEW", "fields": {"p": 1}},
            ],
        }
    )
    await site.plant.bench.take(message)
    [(first, content)] = await events(site, "telemetry")
    assert content == {
        "siteId": str(site.plant.id),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "values": {"load": 2.0},
        "devices": [{"id": "INV1", "values": {"p": 4.2, "fault": 1.0}}],
    }
    await site.plant.bench.take(message)
    assert [event_id for event_id, _ in await events(site, "telemetry")] == [first, first], "sent again with the same id"


async def test_telemetry_that_waits_while_its_plant_moves_is_not_published(site: PartnerSite) -> None:
    """Its batch was prepared for the former organisation, whose partners got it."""
    pipeline, buyer = site.plant.bench.pipeline, await add_organization(site.database)
    batch = await pipeline.prepare([site.plant.message({"time": ago(seconds=1), "fields": {"load": 2}})])
    assert len(batch.events) == 1
    await site.execute(f"UPDATE plant SET organization_id = '{buyer.id}' WHERE id = '{site.plant.id}'")
    async with site.database.transaction() as db:
        await pipeline.store(db, batch)
    assert await events(site, "telemetry") == []


async def test_booleans_and_integers_are_published_as_numbers(site: PartnerSite) -> None:
    await site.plant.add_device("INV1", [{"key": "closed", "field": "closed"}, {"key": "count", "field": "count"}])
    fields = {"closed": True, "count": 3}
    await site.plant.bench.take(site.plant.message({"time": ago(seconds=1), "devices": [{"id": "INV1", "fields": fields}]}))
    [(_, content)] = await events(site, "telemetry")
    ((closed, count),) = (device["values"].values() for device in content["devices"])
    assert (type(closed), closed, type(count), count) == (float, 1.0, float, 3.0)


async def test_a_value_is_published_with_its_own_time(site: PartnerSite) -> None:
    await site.plant.add_device("INV1", SIGNALS)
    now = datetime.now(UTC).replace(microsecond=0)
    times = [now - timedelta(seconds=300), now - timedelta(seconds=600), now]
    entries = [{"id": "INV1", "time": time.isoformat(), "fields": {"power": 10 * n}} for n, time in enumerate(times)]
    for snapshot_time in (now, now - timedelta(minutes=20)):
        await site.plant.bench.take(site.plant.message({"time": snapshot_time.isoformat(), "devices": entries}))
    for (_, content), snapshot_time in zip(await events(site, "telemetry"), (now, now - timedelta(minutes=20)), strict=True):
        assert datetime.fromisoformat(content["time"]) == snapshot_time
        found = [(datetime.fromisoformat(one.get("time", content["time"])), one["values"]["p"]) for one in content["devices"]]
        assert found == list(zip(times, (0.0, 1.0, 2.0), strict=True))


async def test_a_snapshot_with_many_values_is_several_events(site: PartnerSite) -> None:
    # A word of 64 bits in 10 bytes is 64 values with their keys, and the broker takes no message above 1 MiB.
    words = [
        {"key": f"{word}_{bit}_{'alarm' * 10}", "bit": bit, "word": word} for word in ("first", "second") for bit in range(64)
    ]
    names = [f"RACK{number}" for number in range(140)]
    for name in names:
        await site.plant.add_device(name, words)
    devices = [{"id": name, "fields": {"first": 2, "second": 1}} for name in names]
    message = site.plant.message({"time": ago(seconds=1), "fields": {"load": 2}, "devices": devices})
    await site.plant.bench.take(message)
    found = await events(site, "telemetry")
    sizes = [size for (size,) in await site.rows("SELECT length(body) FROM partner_event WHERE kind = 'telemetry'")]
    assert sum(sizes) > 2**20 > 2 * max(sizes)
    assert {(content["siteId"], content["time"]) for _, content in found} == {(str(site.plant.id), found[0][1]["time"])}
    assert [content["values"] for _, content in found] == [{"load": 2.0}, *[{}] * (len(found) - 1)]
    assert [device["id"] for _, content in found for device in content["devices"]] == names
    assert all(sum(device["values"].values()) == 2 for _, content in found for device in content["devices"])
    assert len({event_id for event_id, _ in found}) == len(found)
    await site.plant.bench.take(message)
    assert await events(site, "telemetry") == found * 2


async def test_the_devices_of_a_plant_are_not_listed_for_each_snapshot(site: PartnerSite) -> None:
    """With 10,000 devices, a message of 45 kB with 1,000 snapshots took 4.3 s, in which no heartbeat was answered."""
    listed = 0

    class Devices(dict[str, CachedDevice]):
        def items(self) -> Any:
            nonlocal listed
            listed += 1
            return super().items()

    await site.plant.add_device("INV1", SIGNALS)
    cache = site.plant.bench.pipeline.plant_cache
    cached = (await cache.plants([str(site.plant.id)]))[str(site.plant.id)]
    cached.devices = Devices(cached.devices)
    snapshots = [{"time": ago(seconds=n), "devices": [{"id": "INV1", "fields": {"power": n}}]} for n in range(1, 4)]
    await site.plant.bench.take(site.plant.message(snapshots))
    assert [content["devices"][0]["id"] for _, content in await events(site, "telemetry")] == ["INV1"] * 3
    assert listed == 0


async def test_old_measurements_are_history(site: PartnerSite) -> None:
    await site.plant.add_device("INV1", SIGNALS)
    old = {"id": "INV1", "time": ago(minutes=16), "fields": {"power": 1}}
    await site.plant.bench.take(
        site.plant.message({"time": ago(minutes=16), "fields": {"load": 2}}),
        site.plant.message({"time": ago(minutes=14), "fields": {"load": 3}, "devices": [old]}),
    )
    [(_, content)] = await events(site, "telemetry")
    assert (content["values"], content["devices"]) == ({"load": 3.0}, [])


async def test_without_a_subscription_no_event_is_written(site: PartnerSite) -> None:
    snapshot = {"time": ago(seconds=1), "fields": {"load": 2}}
    stranger = await site.plant.bench.plant()
    await site.plant.bench.take(stranger.message(snapshot))
    for statement in (
        "UPDATE partner_queues SET enabled = false",
        "UPDATE partner_queues SET enabled = true",
        "UPDATE partner_key SET allowed_plant_ids = '{}'",
    ):
        await site.execute(statement)
        site.plant.bench.pipeline.subscription_cache.invalidate_all()
        await site.plant.bench.take(site.plant.message(snapshot, message_id=statement))
    assert len(await events(site, "telemetry")) == 1, "while the queues stood"


async def test_a_notification_invalidates_the_subscriptions(site: PartnerSite) -> None:
    """The gateway and the ingest receive changes of keys and queues by one channel."""
    async with site.database.autocommit() as db:
        await db.execute("LISTEN partner_key_changed")
        await site.execute("UPDATE partner_queues SET enabled = false")
        await site.execute("UPDATE partner_key SET allowed_plant_ids = '{}'")
        received = [notice.payload async for notice in db.notifies(timeout=5, stop_after=2)]
        await db.execute("UNLISTEN *")
    assert received == ["", str(site.sender.key.id)]


async def test_a_setting_of_queues_that_changes_nothing_wakes_no_gateway(site: PartnerSite) -> None:
    """Disabling trading again and again would make every gateway read the keys of all organisations each time."""
    org = operator(site.sender.key.organization_id)
    async with site.database.autocommit() as listening:
        await listening.execute("LISTEN partner_key_changed")
        for enabled in (False, False, False, True):
            async with site.database.transaction() as db:
                await set_queues(db, org, "ours", enabled=enabled)
        received = [notice.payload async for notice in listening.notifies(timeout=2, stop_after=3)]
        await listening.execute("UNLISTEN *")
    assert received == ["", ""]


async def test_every_change_of_connectivity_is_published(site: PartnerSite) -> None:
    for status, reason in ((PlantStatus.ONLINE, None), (PlantStatus.ONLINE, "again"), (PlantStatus.OFFLINE, "maintenance")):
        async with site.database.transaction() as db:
            await record_presence(db, [PlantSeen(site.plant.id, datetime.now(UTC), status, None, reason)], [])
    published = await events(site, "status")
    assert [(content["status"], content.get("reason")) for _, content in published] == [
        ("ONLINE", None),
        ("OFFLINE", "maintenance"),
    ]
    assert datetime.fromisoformat(published[0][1]["time"]) <= datetime.now(UTC)


async def test_alerts_are_published_as_they_change(site: PartnerSite) -> None:
    """As a process of the previous release changes them; `test_published_changes.py` is about this one's."""
    alert = new_id()
    names = {"alert": alert, "org": site.plant.organization_id, "plant": site.plant.id}
    async with await psycopg.AsyncConnection.connect(site.database.url, autocommit=True) as previous:
        await previous.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, message, metric, value, measured_at)"
            " VALUES (%(alert)s, %(org)s, %(plant)s, 'CRITICAL', 'Too hot', 'heat', 71, now())",
            names,
        )
        await previous.execute("UPDATE alert SET status = 'RESOLVED', resolved_at = now()")
        await previous.execute("UPDATE alert SET message = 'Too hot!'")
    published = [content for _, content in await events(site, "alert")]
    assert [content.pop("status") for content in published] == ["ACTIVE", "RESOLVED"]
    assert published[0].keys() == {"alertId", "siteId", "type", "severity", "message", "time"}
    assert (published[0]["alertId"], published[0]["severity"]) == (str(alert), "CRITICAL")


async def test_who_is_served_and_listened_to(site: PartnerSite) -> None:
    bench, organization = site.plant.bench, site.plant.organization_id
    blind = await add_key(bench, organization, site.sender.key.slug, plant_ids=[new_id()])
    await site.execute("UPDATE partner_key SET vhost = '/' WHERE id = %(blind)s", {"blind": blind.key.id})
    async with site.database.transaction() as db:
        served = await served_vhosts(db, {})
        listened = await subscribed_plants(db, [site.plant.id, new_id()])
    inbound = f"{site.sender.key.slug}.inbound"
    assert {(one.key.id, one.key.vhost, one.inbound_queue, one.events_exchange) for one in served} == {
        (site.sender.key.id, site.sender.key.vhost, inbound, "vcp"),
        (blind.key.id, "/", inbound, "vcp.legacy.events"),
    }
    assert listened == {site.plant.id: organization}


async def test_plants_of_a_key_are_read_once(site: PartnerSite) -> None:
    """The gateway reads the keys each second. 2.7 million ids of plants in a hundred keys took it longer than that."""
    plants = [site.plant.id, new_id()]
    limited = await add_key(site.plant.bench, site.plant.organization_id, site.sender.key.slug, plant_ids=plants)
    async with site.database.transaction() as db:
        first = {one.key.id: one.key for one in await served_vhosts(db, {})}
        again = {one.key.id: one.key for one in await served_vhosts(db, first)}
    assert first == again
    assert first[limited.key.id].plant_ids == frozenset(plants)
    assert again[limited.key.id].plant_ids is first[limited.key.id].plant_ids


async def test_a_subscription_is_found_without_reading_the_plants_of_all_keys(site: PartnerSite) -> None:
    """Ingest looks up all plants of a batch after each change of a key, while the messages of all plants wait."""
    bench, organization = site.plant.bench, site.plant.organization_id
    own = [await RecordedPlant.create(site.database) for _ in range(2)]
    await site.execute(f"UPDATE plant SET organization_id = '{organization}' WHERE id IN ('{own[0].id}', '{own[1].id}')")
    await site.execute("UPDATE partner_key SET amqp_slug = NULL")
    blocks = []
    for others in (1, 2_000):
        for _ in range(5):
            await add_key(bench, organization, site.sender.key.slug, plant_ids=[own[0].id, *(new_id() for _ in range(others))])
        async with site.database.transaction() as db:
            found = await subscribed_plants(db, [one.id for one in own])
            cursor = await db.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT id FROM plant WHERE id = %s AND has_subscription(%s, id)",
                (own[1].id, organization),
            )
            [([explained],)] = await cursor.fetchall()
        assert found == {own[0].id: organization}
        blocks.append(explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"])
    assert blocks[1] < 2 * blocks[0] + 10


async def test_the_index_of_plants_follows_the_keys(site: PartnerSite) -> None:
    key = await add_key(site.plant.bench, site.plant.organization_id, site.sender.key.slug, plant_ids=[site.plant.id, new_id()])
    query = f"SELECT plant_id FROM partner_key_plant WHERE key_id = '{key.key.id}'"
    assert await site.rows(query) == [(site.plant.id,)]
    await site.execute(f"UPDATE partner_key SET amqp_slug = NULL WHERE id = '{key.key.id}'")
    assert await site.rows(query) == []


@pytest.mark.parametrize("whose", ["all", "one"])
def test_recipients(whose: str) -> None:
    plant: UUID = new_id()
    keys = [sending_key(plant_ids=plants).key for plants in (None, [plant], [new_id()])]
    only = keys[2].id if whose == "one" else None
    event = QueuedEvent(1, new_id(), new_id(), plant, only, "telemetry", b"{}")
    assert recipients(event, keys) == (keys[:2] if whose == "all" else keys[2:])


def test_a_key_that_may_not_consume_events_receives_none() -> None:
    """They would fill its vhost, and be reported as dropped each minute after a day."""
    writes = sending_key(scopes=[Scope.VCP_WRITE_SETPOINT]).key
    reads = sending_key(scopes=[Scope.VCP_CONNECT]).key
    for only in (None, writes.id):
        event = QueuedEvent(1, new_id(), new_id(), new_id(), only, "telemetry", b"{}")
        assert recipients(event, [writes, reads]) == ([] if only else [reads])


async def test_a_key_that_changes_while_a_batch_is_read_loses_no_measurements(site: PartnerSite) -> None:
    bench = site.plant.bench
    new = await bench.plant()
    await bench.take(site.plant.message({"time": ago(seconds=10), "fields": {"load": 1}}))
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE partner_queues")  # the look-up of the new plant's listeners waits here
        reading = asyncio.create_task(
            bench.take(
                site.plant.message({"time": ago(seconds=5), "fields": {"load": 2}}),
                new.message({"time": ago(seconds=5), "fields": {"load": 2}}),
            )
        )
        await bench.waiting_for("partner_queues")
        bench.pipeline.subscription_cache.invalidate_all()
    await reading
    assert [content["values"] for _, content in await events(site, "telemetry")] == [{"load": 1}, {"load": 2}]


async def test_stale_events_are_dropped_without_reading_those_that_wait(site: PartnerSite) -> None:
    """All were read each minute, and all stale ones deleted by one statement. One that took too long ended the gateway for all
    partners, again after each start.
    """
    for count, age in ((12_000, "25 hours"), (150_000, "1 hour")):
        await site.execute(
            "INSERT INTO partner_event (event_id, organization_id, kind, body, at) SELECT gen_random_uuid(), organization_id,"
            f" 'alert', '', now() - interval '{age}' FROM plant, generate_series(1, {count}) WHERE id = '{site.plant.id}'"
        )
    await site.execute("ANALYZE partner_event")
    dropped, read = [], []
    starts = QueueStarts[None]()
    for _ in range(7):
        async with site.database.transaction() as db:
            dropped.append(await drop_stale(db, starts))
            cursor = await db.execute(
                "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'partner_event'"
            )
            read.append((await cursor.fetchall())[0][0])
    assert dropped == [2_000] * 6 + [0]
    assert max(read) < 100_000  # of a connection, which the transactions may share
