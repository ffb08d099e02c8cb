"""What partners read of a site over REST."""

import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gridfleet.api.http.json_out import to_json
from gridfleet.domains.vcp.models import LogEntry
from gridfleet.domains.vcp.retention import delete_commands
from gridfleet.domains.vcp.site_queries import list_log, list_meter_readings, list_recent_commands, read_configuration
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import CommandType
from support.builders.partner_commands import order
from support.builders.partner_site import PartnerSite
from support.servers.running_task import watched_loop

PERSON = UserCaller(new_id(), new_id(), "viewer@example.com", "Viewer", False, None)
METER = [
    {"key": "energy_imported", "field": "imported", "unit": "Wh", "kind": "counter"},
    {"key": "energy_exported", "field": "exported", "unit": "kWh", "kind": "counter"},
]


ENDED = (
    "INSERT INTO vcp_command (id, organization_id, api_key_id, plant_id, routing_key, payload, digest, claims_id, status,"
    " ack_status, created_at) SELECT gen_random_uuid(), %(org)s, %(key)s, %(plant)s, 'k', '{}', '', false,"
    " 'APPLIED', 'APPLIED', now() - interval '3 days' - n * interval '1 minute' FROM generate_series(1, %(count)s::int) AS n"
)
OPEN = ENDED.replace("'APPLIED', 'APPLIED'", "'RECEIVED', 'ACCEPTED'").replace("'3 days'", "'1 s'").replace("1 minute", "1 s")
TYPED = ENDED.replace("routing_key, payload", "command_type, routing_key, payload").replace(
    "'k', '{}'",
    "CASE WHEN n > %(count)s - 3 THEN 'DEVICE_COMMAND' ELSE 'SITE_SETPOINT' END, 'k', to_jsonb(repeat('x', 600))",
)
Reading = Callable[[Connection, OrgScope, UUID, datetime], Awaitable[object]]


def scope(site: PartnerSite, *plants: object) -> OrgScope:
    limited = frozenset({site.plant.id if plant == "this" else new_id() for plant in plants}) if plants else None
    return OrgScope(site.plant.organization_id, OrgRole.VIEWER, PERSON, limited)


def powers(entries: list[LogEntry]) -> list[float]:
    return [one["payload"]["powerKw"] for one in json.loads(to_json(entries))]


async def test_a_site_without_any_partner_command(site: PartnerSite) -> None:
    async with site.database.transaction() as db:
        found = await read_configuration(db, scope(site), site.plant.id, datetime.now(UTC))
    assert (found.operating_mode, found.mode_override, found.active_schedule, found.pending_commands) == (
        "AUTO",
        None,
        None,
        [],
    )
    assert found.constraints.import_limit_kw is found.fallback.mode is None


async def test_foreign_and_hidden_sites_are_forbidden_alike(site: PartnerSite) -> None:
    now = datetime.now(UTC)
    stranger = OrgScope(new_id(), OrgRole.ORG_ADMIN, PERSON)
    for org, plant in ((scope(site), new_id()), (scope(site, "other"), site.plant.id), (stranger, site.plant.id)):
        async with site.database.transaction() as db:
            for reading in (
                read_configuration(db, org, plant, now),
                list_recent_commands(db, org, plant, now),
                list_meter_readings(db, org, plant, now - timedelta(hours=1), now),
            ):
                with pytest.raises(Forbidden):
                    await reading
    async with site.database.transaction() as db:
        await read_configuration(db, scope(site, "this", "other"), site.plant.id, now)


async def test_open_orders_stay_in_the_list_and_ended_ones_for_a_day(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=1)
    await site.acknowledge_newest("APPLIED")
    await site.send("command.site-setpoint", powerKw=2)
    now = datetime.now(UTC)
    async with site.database.transaction() as db:
        today = await list_recent_commands(db, scope(site), site.plant.id, now)
        later = await list_recent_commands(db, scope(site), site.plant.id, now + timedelta(hours=25))
        config = await read_configuration(db, scope(site), site.plant.id, now)
    assert powers(today) == [2, 1]
    assert powers(later) == [2]
    assert [entry.message_id for entry in config.pending_commands] == [later[0].message_id]


@pytest.mark.parametrize("read", [read_configuration, list_recent_commands])
async def test_a_site_is_read_without_its_commands_of_years(site: PartnerSite, read: Reading) -> None:
    """A partner that sends a setpoint each minute leaves a million in two years."""
    fetched = []
    for count in (10, 5_000):
        await site.execute("DELETE FROM vcp_command")
        await site.execute(ENDED, {"count": count})
        async with site.database.autocommit() as db:
            await db.execute("VACUUM ANALYZE vcp_command")
        async with site.database.transaction() as db:
            await read(db, scope(site), site.plant.id, datetime.now(UTC))
            cursor = await db.execute(
                "SELECT pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid) FROM pg_class"
                " WHERE relname = 'vcp_command'"
            )
            fetched += [row[0] for row in await cursor.fetchall()]
    assert fetched[1] <= max(fetched[0], 20)


@pytest.mark.parametrize(
    ("kind", "most", "total"), [(None, 600, 20_000), (CommandType.DEVICE_COMMAND, 20, 3), (CommandType.CONFIG, 20, 0)]
)
async def test_a_page_of_the_log_of_years_reads_few_blocks(
    site: PartnerSite, kind: CommandType | None, most: int, total: int
) -> None:
    """The entries themselves have 2,000 blocks."""
    await site.execute(TYPED, {"count": 20_000})
    async with site.database.autocommit() as db:
        await db.execute("VACUUM ANALYZE vcp_command")
    async with site.database.transaction() as db:
        before = await blocks_read(db)
        found = await list_log(db, scope(site), site.plant.id, kind, Paging(1, 20))
        read = await blocks_read(db) - before
    assert found.meta.total == total
    assert read < most


async def blocks_read(db: Connection) -> int:
    """Return how many blocks of the log and its indexes this connection has read lately."""
    cursor = await db.execute(
        "SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::int FROM pg_class WHERE oid = 'vcp_command'::regclass"
        " OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'vcp_command'::regclass)"
    )
    [(blocks,)] = await cursor.fetchall()
    return int(blocks)


async def test_the_newest_thousand_open_commands_are_shown(site: PartnerSite) -> None:
    """A plant may receive any number within a day, and finish none."""
    await site.execute(OPEN, {"count": 1_010})
    now = datetime.now(UTC)
    async with site.database.transaction() as db:
        found = (await read_configuration(db, scope(site), site.plant.id, now)).pending_commands
        newest = (await list_recent_commands(db, scope(site), site.plant.id, now))[::-1]
    assert len(found) == 1_000
    assert [one.id for one in found] == [one.id for one in newest]


async def test_what_was_refused_before_it_was_proved_is_listed_at_its_site(site: PartnerSite) -> None:
    await site.take(order("command.mode", site.plant.id, slug=site.sender.key.slug, mode="AUTO", headers={}))
    async with site.database.transaction() as db:
        log = await list_log(db, scope(site), site.plant.id, None, Paging(1, 20))
        recent = await list_recent_commands(db, scope(site), site.plant.id, datetime.now(UTC))
    assert [(entry.rejection_reason, entry.site_id) for entry in log.data] == [("SIGNATURE_MISSING", str(site.plant.id))]
    assert recent == log.data


async def test_meters_are_read_by_quarters_of_an_hour(site: PartnerSite) -> None:
    await site.plant.add_device("GRID", METER)
    await site.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %(plant)s AND external_id = 'GRID'")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    readings = [(-5, 1_000, 7.0), (5, 1_500, 7.0), (20, 2_500, 7.5), (29, 2_600, 8.0), (46, 100, 8.0)]
    await site.plant.bench.take(
        *(
            site.plant.message(
                {
                    "time": (start + timedelta(minutes=minute)).isoformat(),
                    "devices": [
                        {"id": "GRID", "fields": {"imported": imported, "exported": exported}},
                        {"id": "BAT1", "fields": {"energy_imported": minute}},
                    ],
                },
                message_id=str(minute),
            )
            for minute, imported, exported in readings
        )
    )
    async with site.database.transaction() as db:
        found = await list_meter_readings(db, scope(site), site.plant.id, start, start + timedelta(hours=1))
        cut = await list_meter_readings(
            db, scope(site), site.plant.id, start + timedelta(minutes=1), start + timedelta(minutes=44)
        )
        for bad in (timedelta(0), timedelta(hours=49)):
            with pytest.raises(ValidationFailed):
                await list_meter_readings(db, scope(site), site.plant.id, start - bad, start)
        assert (
            await list_meter_readings(db, scope(site), site.plant.id, *(datetime(1, 1, day, tzinfo=UTC) for day in (1, 2)))
            == []
        )
    shown = [((one.time - start) // timedelta(minutes=1), one.meter_id, one.interval, one.energy) for one in found]
    # The import counter is in Wh, and was reset before the last reading; between two readings both counters rise evenly.
    assert shown == [(0, "GRID", 15, 0.583333), (15, "GRID", 15, -0.233333), (30, "GRID", 15, 0.0)]
    assert [one.time for one in cut] == [found[1].time], "whole quarters only"


@pytest.mark.parametrize("silent", ["imported", "exported"])
async def test_a_meter_with_a_silent_counter_returns_nothing_for_that_time(site: PartnerSite, silent: str) -> None:
    await site.plant.add_device("GRID", METER)
    await site.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %(plant)s AND external_id = 'GRID'")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    readings = [{"imported": 1_000 + minute, "exported": 7 + minute} for minute in range(0, 61, 5)]
    for number in range(4, 9):
        del readings[number][silent]
    await site.plant.bench.take(
        *(
            site.plant.message(
                {
                    "time": (start + timedelta(minutes=5 * number)).isoformat(),
                    "devices": [{"id": "GRID", "fields": fields}],
                },
                message_id=str(number),
            )
            for number, fields in enumerate(readings)
        )
    )
    async with site.database.transaction() as db:
        found = await list_meter_readings(db, scope(site), site.plant.id, start, start + timedelta(hours=1))
    assert [(one.time - start) // timedelta(minutes=1) for one in found] == [0, 45]


async def test_more_readings_than_fit_into_a_response_are_refused(site: PartnerSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.vcp.site_queries.MOST_READINGS", 3, raising=False)
    await site.plant.add_device("GRID", METER)
    await site.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %(plant)s AND external_id = 'GRID'")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for minute in range(0, 61, 15):
        fields = {"imported": 1_000 + minute, "exported": 7}
        snapshot = {"time": (start + timedelta(minutes=minute)).isoformat(), "devices": [{"id": "GRID", "fields": fields}]}
        await site.plant.bench.take(site.plant.message(snapshot, message_id=str(minute)))
    async with site.database.transaction() as db:
        assert len(await list_meter_readings(db, scope(site), site.plant.id, start, start + timedelta(minutes=45))) == 3
        with pytest.raises(ValidationFailed, match="more than 3 readings, or need too many buckets for them"):
            await list_meter_readings(db, scope(site), site.plant.id, start, start + timedelta(hours=1))


async def test_what_ended_long_ago_is_forgotten_and_what_is_open_is_not(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=1)
    await site.acknowledge_newest("APPLIED")
    await site.send("command.site-setpoint", powerKw="far too much")
    await site.send("command.site-setpoint", powerKw=2)
    assert await delete_commands(site.database, datetime.now(UTC) - timedelta(minutes=1)) == 0
    assert len(await site.log()) == 3

    forgotten = await delete_commands(site.database, datetime.now(UTC) + timedelta(minutes=1))

    assert forgotten == 3  # two orders, one command
    assert [status for status, *_ in await site.log()] == [status for *_, status in await site.commands()] == ["PENDING"]


async def test_large_payloads_shorten_the_list_of_recent_commands(site: PartnerSite) -> None:
    """A thousand commands of 64 KiB took the API process seconds and a GiB."""
    for power in range(5):
        assert await site.send("command.site-setpoint", powerKw=power) == "ACCEPTED"
    async with site.database.transaction() as db:
        assert len(await list_recent_commands(db, scope(site), site.plant.id, datetime.now(UTC))) == 5
        await db.execute("UPDATE vcp_command SET payload = payload || jsonb_build_object('note', repeat('x', 3000000))")
        found = await list_recent_commands(db, scope(site), site.plant.id, datetime.now(UTC))
    assert powers(found) == [4, 3, 2]


async def test_numbers_with_hundreds_of_digits_are_not_kept(site: PartnerSite) -> None:
    # PostgreSQL returns 1e308 with 309 digits: a page of a hundred such messages of 64 KiB would have 340 MB.
    for count in (500, 1_000):
        message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw="1", note=[1e308] * count)
        assert await site.take(message) == "REJECTED"
    rows = await site.rows("SELECT jsonb_array_length(payload->'note') FROM vcp_command ORDER BY created_at, id")
    assert rows == [(500,), (None,)]


async def test_a_page_of_large_messages_is_not_decoded(site: PartnerSite) -> None:
    """All other requests of the process wait meanwhile. A page of 2,000,000 values took five seconds."""
    payload = '{"deep":[' + "[]," * 21_000 + '1],"big":1e400,"text":"\\u00e4\\"\\\\"}'
    await site.send("command.site-setpoint", powerKw=1)
    await site.execute("UPDATE vcp_command SET payload = %(payload)s::jsonb", {"payload": payload})
    columns = "organization_id, api_key_id, plant_id, site_id, command_type, routing_key, payload, digest, status, ack_status"
    await site.execute(
        f"INSERT INTO vcp_command (id, {columns}, acknowledged_at, claims_id)"
        f" SELECT gen_random_uuid(), {columns}, acknowledged_at, false FROM vcp_command, generate_series(1, 99)"
    )
    begun = time.process_time()
    for _ in range(100):
        json.loads(payload)
    decoding = time.process_time() - begun

    async with watched_loop() as loop, site.database.transaction() as db:
        log = await list_log(db, scope(site), site.plant.id, None, Paging(1, 100))
        text = to_json(log)
        recent = await list_recent_commands(db, scope(site), site.plant.id, datetime.now(UTC))

    assert loop.longest < 0.5 * decoding
    shown = json.loads(text)["data"][0]
    assert shown["payload"] == json.loads(payload, parse_float=lambda digits: 10**400)
    assert (len(log.data), len(recent)) == (100, 100)
