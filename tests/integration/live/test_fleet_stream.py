"""The stream of a fleet: what is committed comes as events, to those who may see it, and nothing is lost without a word."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.alerts.moves import follow_moves
from gridfleet.domains.device_templates.catalogue import seed_system_templates
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.live import feed, fleet
from gridfleet.domains.plants.changes import CHANNEL, ChangePublisher
from gridfleet.domains.telemetry.power.refresh import PowerRefresher, refresh_all
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db.notifications import notify
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_user, session_of
from support.builders.api_keys import key_headers
from support.builders.telemetry_records import RecordedPlant, add_plant
from support.clients.open_stream import OpenStream
from support.servers.api_service import ApiService, api_service, bearer
from support.servers.running_task import running

PATH = "/api/v1/fleet/live"


@pytest.fixture
async def service(database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiService]:
    monkeypatch.setattr(feed, "SUMMARY_SECONDS", 0.0)
    async with api_service(database_url, home) as running:
        yield running
        running.state.fleet.close()


async def viewer_of(service: ApiService, organization_id: UUID) -> dict[str, str]:
    database = service.state.database
    user = await add_user(database)
    await add_member(database, organization_id, user.id, OrgRole.VIEWER)
    token = await session_of(database, service.state.access_tokens, user)
    return {**bearer(token), "x-org-id": str(organization_id), "user": str(user.id)}


async def sql(service: ApiService, query: str, *parameters: Any) -> None:
    async with service.state.database.transaction() as db:
        await db.execute(query.encode(), parameters)


async def opened(service: ApiService, headers: dict[str, str], query: str = "") -> OpenStream:
    """A stream whose first event was received."""
    stream = OpenStream(service, PATH, headers, query)
    first = await stream.named_event()
    assert first is not None, "the stream ended"
    assert first[0] == "summary"
    return stream


async def until(stream: OpenStream, name: str) -> Any:
    """The data of the next event of a name."""
    while (found := await stream.named_event()) is not None:
        if found[0] == name:
            return found[1]
    raise AssertionError("the stream ended")


async def row_with(stream: OpenStream, holds: Callable[[Any], bool]) -> None:
    """Read on until the row of a single changed plant is so."""
    async with asyncio.timeout(15):
        while not holds((await until(stream, "plants"))[0]):
            pass


async def closed(*streams: OpenStream) -> None:
    for stream in streams:
        stream.task.cancel()
    await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)


async def add_alert(service: ApiService, plant: RecordedPlant) -> UUID:
    alert_id = new_id()
    await sql(
        service,
        "INSERT INTO alert (id, organization_id, plant_id, severity, message, metric, value, measured_at)"
        " VALUES (%s, %s, %s, 'CRITICAL', 'Hot', 'temperature', 90, now())",
        *(alert_id, plant.organization_id, plant.id),
    )
    return alert_id


async def add_command(service: ApiService, plant: RecordedPlant) -> UUID:
    command_id, now = new_id(), utc_now()
    await sql(
        service,
        "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
        " VALUES (%s, %s, 'DEVICE_COMMAND', '{}', 'SYSTEM', %s, %s, %s)",
        *(command_id, plant.id, now, now + timedelta(hours=1), now),
    )
    return command_id


async def test_each_kind_of_change_comes_as_an_event(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    assert stream.status == 200

    await sql(service, "UPDATE plant SET status = 'OFFLINE' WHERE id = %s", plant.id)
    [row] = await until(stream, "plants")
    assert (row["id"], row["status"]) == (str(plant.id), "OFFLINE")
    assert "asOf" in await until(stream, "summary")

    alert_id = await add_alert(service, plant)
    [alert] = await until(stream, "alerts")
    assert (alert["id"], alert["status"], alert["severity"]) == (str(alert_id), "ACTIVE", "CRITICAL")
    await sql(service, "UPDATE alert SET status = 'RESOLVED', acknowledged_at = now(), resolved_at = now()")
    assert (await until(stream, "alerts"))[0]["status"] == "RESOLVED"

    command_id = await add_command(service, plant)
    [command] = await until(stream, "commands")
    assert (command["id"], command["plantId"], command["status"]) == (str(command_id), str(plant.id), "PENDING")
    await sql(service, "UPDATE plant_command SET status = 'RECEIVED', due_at = NULL, received_at = now()")
    assert (await until(stream, "commands"))[0]["status"] == "RECEIVED"

    publisher = ChangePublisher(service.state.database)
    publishing = asyncio.create_task(publisher.run())
    publisher.note({plant.organization_id: {plant.id}})
    [row] = await until(stream, "plants")
    assert row["id"] == str(plant.id)
    publishing.cancel()

    added = await add_plant(service.state.database, plant.organization_id)
    assert [row["id"] for row in await until(stream, "plants")] == [str(added)]
    await sql(service, "DELETE FROM plant WHERE id = %s", added)
    assert await until(stream, "gone") == {"plantIds": [str(added)]}
    await closed(stream)
    assert (service.state.fleet.watchers, len(service.state.stream_slots)) == (0, 0)


async def test_the_power_of_a_message_comes_although_it_is_computed_later(service: ApiService) -> None:
    database = service.state.database
    plant = await RecordedPlant.create(database)
    await plant.add_device("PV1")
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    publisher, refresher = ChangePublisher(database), PowerRefresher(database)
    async with running(publisher.run()), running(refresher.run()):  # as in an ingest process
        for power in (3.0, 4.0):
            await plant.write("PV1", [Metric("active_power", "kW")], {utc_now(): [power]})
            publisher.note({plant.organization_id: {plant.id}})
            refresher.note(plant.organization_id, [plant.id])
            await row_with(stream, lambda row, power=power: row["power"] is not None and row["power"]["pvKw"] == power)
    await refresh_all(database)
    await plant.delete_device("PV1")
    await refresh_all(database)
    await row_with(stream, lambda row: row["power"] is None)
    await closed(stream)


async def test_a_plant_comes_again_with_each_change_of_what_its_row_shows(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    async with service.state.database.transaction() as db:
        await seed_system_templates(db)
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    await add_alert(service, plant)
    await row_with(stream, lambda row: (row["openAlerts"], row["worstAlert"]) == (1, "CRITICAL"))
    await sql(service, "UPDATE alert SET status = 'RESOLVED', acknowledged_at = now(), resolved_at = now()")
    await row_with(stream, lambda row: (row["openAlerts"], row["worstAlert"]) == (0, None))
    await sql(service, "UPDATE plant SET template_id = (SELECT id FROM device_template WHERE level = 'PLANT' LIMIT 1)")
    await row_with(stream, lambda row: row["templateId"] is not None)
    await closed(stream)


async def test_organisations_do_not_see_each_other(service: ApiService) -> None:
    ours, theirs = await RecordedPlant.create(service.state.database), await RecordedPlant.create(service.state.database)
    first = await opened(service, await viewer_of(service, ours.organization_id))
    second = await opened(service, await viewer_of(service, theirs.organization_id))
    for plant in (theirs, ours):
        await sql(service, "UPDATE plant SET name = 'Changed' WHERE id = %s", plant.id)
        await add_alert(service, plant)
        await add_command(service, plant)
    for stream, plant in ((first, ours), (second, theirs)):
        assert {row["id"] for row in await until(stream, "plants")} == {str(plant.id)}
    for stream in (first, second):
        await until(stream, "alerts")
    await sql(service, "UPDATE plant SET organization_id = %s WHERE id = %s", ours.organization_id, theirs.id)
    assert await until(second, "gone") == {"plantIds": [str(theirs.id)]}
    assert [row["id"] for row in await until(first, "plants")] == [str(theirs.id)]
    await follow_moves(service.state.database)
    assert [alert["plantId"] for alert in await until(first, "alerts")] == [str(theirs.id)]
    text = b"".join(piece for piece in [first.pieces.get_nowait() for _ in range(first.pieces.qsize())] if piece)
    assert str(theirs.organization_id).encode() not in text
    await closed(first, second)


async def test_a_plant_that_moved_shows_no_command_of_its_former_organisation(service: ApiService) -> None:
    ours, theirs = await RecordedPlant.create(service.state.database), await RecordedPlant.create(service.state.database)
    await add_command(service, theirs)
    stream = await opened(service, await viewer_of(service, ours.organization_id))
    await sql(service, "UPDATE plant SET organization_id = %s WHERE id = %s", ours.organization_id, theirs.id)
    # As the gateway does after the move: the open command ends.
    await sql(service, "UPDATE plant_command SET status = 'EXPIRED', finished_at = expires_at, due_at = NULL")
    own = await add_command(service, theirs)
    assert [command["id"] for command in await until(stream, "commands")] == [str(own)]
    await closed(stream)


async def test_a_forged_notification_shows_no_foreign_record(service: ApiService) -> None:
    """What is read depends on the organisation of the feed, not on the ids of the notification."""
    ours, theirs = await RecordedPlant.create(service.state.database), await RecordedPlant.create(service.state.database)
    stream = await opened(service, await viewer_of(service, ours.organization_id))
    ids = {"plant": theirs.id, "alert": await add_alert(service, theirs), "command": await add_command(service, theirs)}
    async with service.state.database.transaction() as db:
        for kind, one in ids.items():
            await notify(db, CHANNEL, f"{kind}:{ours.organization_id}:{one}")
    assert await until(stream, "gone") == {"plantIds": [str(theirs.id)]}
    await sql(service, "UPDATE plant SET name = 'Last' WHERE id = %s", ours.id)
    while (found := await stream.named_event()) is not None:
        assert found[0] in ("summary", "plants")
        if found[0] == "plants":
            break
    await closed(stream)


async def test_a_key_sees_its_plants_and_what_its_scopes_allow(service: ApiService) -> None:
    database = service.state.database
    plant = await RecordedPlant.create(database)
    hidden = await add_plant(database, plant.organization_id)
    _, key = await key_headers(database, plant.organization_id, ["telemetry:read"], [plant.id])
    stream = await opened(service, key)
    await add_command(service, plant)
    await sql(service, "UPDATE plant SET name = 'Changed'")
    assert [row["id"] for row in await until(stream, "plants")] == [str(plant.id)]
    await sql(service, "DELETE FROM plant WHERE id = %s", hidden)
    alert_id = await add_alert(service, plant)
    while True:
        name, data, _ = await stream.named_event() or ("ended", None, None)
        assert name in ("summary", "plants", "alerts")
        if name == "plants":
            assert [(row["id"], row["openAlerts"]) for row in data] == [(str(plant.id), 1)]
        if name == "alerts":
            break
    assert [alert["id"] for alert in data] == [str(alert_id)]
    await sql(service, "UPDATE partner_key SET revoked_at = now()")
    service.state.access.invalidate("*")
    while await stream.named_event() is not None:
        pass
    await stream.task


@pytest.mark.parametrize("first", ["member", "key"])
async def test_only_members_read_the_names_of_others(service: ApiService, first: str) -> None:
    database = service.state.database
    plant = await RecordedPlant.create(database)
    member = await viewer_of(service, plant.organization_id)
    _, key = await key_headers(database, plant.organization_id, ["telemetry:read", "commands:read"])
    streams = {
        name: await opened(service, key if name == "key" else member) for name in sorted(("member", "key"), key=first.__ne__)
    }
    alert_id = await add_alert(service, plant)
    for stream in streams.values():
        assert (await until(stream, "alerts"))[0]["acknowledgedByName"] is None
    await sql(
        service,
        "UPDATE alert SET status = 'ACKNOWLEDGED', acknowledged_at = now(), acknowledged_by = %s WHERE id = %s",
        *(member["user"], alert_id),
    )
    names = {name: (await until(stream, "alerts"))[0]["acknowledgedByName"] for name, stream in streams.items()}
    assert names["key"] is None
    assert names["member"]
    await closed(*streams.values())


async def test_feeds_of_an_organisation_take_no_room_of_others(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "KEPT_BYTES", 40_000)
    monkeypatch.setattr(feed, "TURN_SECONDS", 0.0)
    database = service.state.database
    plant, other = await RecordedPlant.create(database), await RecordedPlant.create(database)
    headers = await viewer_of(service, plant.organization_id)
    quick = OpenStream(service, PATH, headers)
    _, _, last_id = await quick.named_event() or ("ended", None, None)
    beside = []
    for _ in range(20):
        shown = await add_plant(database, other.organization_id)
        _, key = await key_headers(database, other.organization_id, ["telemetry:read"], [shown])
        beside.append(await opened(service, key))
    for number in range(10):
        await sql(service, "UPDATE plant SET name = %s WHERE id = %s", f"Name {number}", plant.id)
        while (await until(quick, "plants"))[0]["name"] != f"Name {number}":
            pass
    again = OpenStream(service, PATH, {**headers, "last-event-id": last_id or ""})
    name, rows, _ = await again.named_event() or ("ended", [], None)
    assert (name, rows[0]["name"]) == ("plants", "Name 0")
    await closed(quick, again, *beside)


async def test_an_organisation_has_a_bounded_number_of_feeds(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users share one; a key with a list of plants has one of its own."""
    monkeypatch.setattr(fleet, "MOST_FEEDS", 2)
    database = service.state.database
    plant = await RecordedPlant.create(database)
    keys = []
    for _ in range(3):
        shown = await add_plant(database, plant.organization_id)
        keys.append((await key_headers(database, plant.organization_id, ["telemetry:read"], [shown]))[1])
    streams = [await opened(service, key) for key in keys[:2]]
    answer = await service.client.get(PATH, headers=keys[2])
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_REQUESTS")
    streams.append(await opened(service, keys[0]))
    await closed(streams[1])
    streams.append(await opened(service, keys[2]))  # in place of the one that is not read
    await closed(*streams)


async def test_what_happened_meanwhile_comes_first(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    headers = await viewer_of(service, plant.organization_id)
    stream = OpenStream(service, PATH, headers)
    first = await stream.named_event()
    assert first is not None
    await closed(stream)
    other = await opened(service, headers)  # the feed of all watchers goes on
    await sql(service, "UPDATE plant SET name = 'While away' WHERE id = %s", plant.id)
    await until(other, "plants")
    for headers_of_it, query in (({"last-event-id": str(first[2])}, ""), ({}, f"lastEventId={first[2]}")):
        again = OpenStream(service, PATH, {**headers, **headers_of_it}, query)
        name, data, last_id = await again.named_event() or ("ended", [], None)
        assert (name, data[0]["name"]) == ("plants", "While away")
        while last_id is None:  # the last event of those that were read together
            _, _, last_id = await again.named_event() or ("ended", None, "")
        await closed(again)
        # Nothing comes twice.
        again = OpenStream(service, PATH, {**headers, "last-event-id": last_id})
        with pytest.raises(TimeoutError):
            await again.named_event(1)
        await closed(again)
    await closed(other)


@pytest.mark.parametrize("unknown", ["0-0", "x", "1" * 64, "-", "5f3a9c1e-99999999999999999999"])
async def test_a_client_whose_past_is_unknown_reads_again(service: ApiService, unknown: str) -> None:
    plant = await RecordedPlant.create(service.state.database)
    stream = OpenStream(service, PATH, {**await viewer_of(service, plant.organization_id), "last-event-id": unknown})
    name, data, event_id = await stream.named_event() or ("ended", None, None)
    assert (name, data, event_id) == ("reset", {"reason": "UNKNOWN_ID"}, None)
    name, _, event_id = await stream.named_event() or ("ended", None, None)
    assert (name, event_id is not None) == ("summary", True)
    await closed(stream)


async def test_a_slow_reader_gets_a_reset_and_no_queue(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MOST_BYTES_OF_FEED", 2_000)
    monkeypatch.setattr(feed, "TURN_SECONDS", 0.0)
    plant = await RecordedPlant.create(service.state.database)
    slow = await opened(service, await viewer_of(service, plant.organization_id))
    slow.reads.clear()
    quick = await opened(service, await viewer_of(service, plant.organization_id))
    for number in range(40):
        await sql(service, "UPDATE plant SET name = %s WHERE id = %s", f"Name {number}", plant.id)
        while (await until(quick, "plants"))[0]["name"] != f"Name {number}":
            pass
    assert slow.pieces.qsize() <= 1  # nothing is queued for it
    slow.reads.set()
    assert await until(slow, "reset") == {"reason": "TOO_SLOW"}
    await sql(service, "UPDATE plant SET name = 'After' WHERE id = %s", plant.id)
    assert (await until(slow, "plants"))[0]["name"] == "After"
    await closed(slow, quick)


async def many_plants(service: ApiService, count: int) -> RecordedPlant:
    """A plant beside others of its organisation."""
    plant = await RecordedPlant.create(service.state.database)
    await sql(
        service,
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
        " SELECT gen_random_uuid(), %s, 'Plant', number, 'GATEWAY', 'PASSWORD' FROM generate_series(2, %s) AS number",
        *(plant.organization_id, count),
    )
    return plant


async def test_a_large_event_comes_in_small_pieces(service: ApiService) -> None:
    """The server holds some pieces for each client that does not read."""
    plant = await many_plants(service, 200)
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    sizes: list[int] = []
    put = stream.pieces.put_nowait
    stream.pieces.put_nowait = lambda piece: (sizes.append(len(piece or b"")), put(piece))  # type: ignore[assignment]
    for name in ("First", "Second"):
        await sql(service, "UPDATE plant SET name = %s", name)
        renamed: set[str] = set()
        while len(renamed) < 200:  # one event, or two if the change was read in two parts
            rows = await until(stream, "plants")
            assert {row["name"] for row in rows} == {name}
            renamed |= {row["id"] for row in rows}
    assert max(sizes) <= 16 * 1024 < sum(sizes) / 4
    await closed(stream)


async def test_a_reader_within_an_event_that_is_not_kept_comes_back(
    service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "MOST_BYTES_OF_FEED", 2_000)
    plant = await many_plants(service, 200)
    headers = await viewer_of(service, plant.organization_id)
    slow = OpenStream(service, PATH, headers)
    _, _, last_id = await slow.named_event() or ("ended", None, None)
    quick = await opened(service, headers)
    slow.reads.clear()
    for text in ("First", "Second"):
        await sql(service, "UPDATE plant SET name = %s", text)
        while {row["name"] for row in await until(quick, "plants")} != {text}:
            pass
    slow.reads.set()
    assert await slow.named_event() is None  # the incomplete event is not one
    await slow.task
    again = OpenStream(service, PATH, {**headers, "last-event-id": last_id or ""})
    assert (await again.named_event() or ("ended",))[:2] == ("reset", {"reason": "UNKNOWN_ID"})
    await closed(quick, again)


async def test_a_reader_that_stalls_is_disconnected(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.api.streams.STALLED_SECONDS", 0.5)
    plant = await RecordedPlant.create(service.state.database)
    stream = OpenStream(service, PATH, await viewer_of(service, plant.organization_id), reads=False)
    async with asyncio.timeout(60):
        await stream.task
    assert (service.state.fleet.watchers, len(service.state.stream_slots)) == (0, 0)


async def test_a_lost_connection_to_the_database_causes_a_reset(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    await sql(service, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gridfleet-live'")
    assert await until(stream, "reset") == {"reason": "INTERRUPTED"}
    await sql(service, "UPDATE plant SET name = 'After' WHERE id = %s", plant.id)
    assert (await until(stream, "plants"))[0]["name"] == "After"
    await closed(stream)


@pytest.mark.parametrize("end", ["session", "membership", "process"])
async def test_the_stream_ends_with_the_right_to_it(service: ApiService, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(feed, "TICK_SECONDS", 0.2)
    plant = await RecordedPlant.create(service.state.database)
    headers = await viewer_of(service, plant.organization_id)
    stream = await opened(service, headers)
    if end == "session":
        assert (await service.client.post("/api/v1/auth/logout", headers=headers)).is_success
    elif end == "membership":
        await sql(service, "DELETE FROM membership WHERE user_id = %s", headers["user"])
        service.state.access.invalidate(headers["user"])
    else:
        service.state.fleet.close()
    assert await stream.named_event() is None
    await stream.task
    assert len(service.state.stream_slots) == 0


async def test_a_stream_outlives_a_database_that_does_not_answer(service: ApiService) -> None:
    """A browser that reconnects meanwhile would be refused, and give up."""
    plant = await RecordedPlant.create(service.state.database)
    stream = await opened(service, await viewer_of(service, plant.organization_id))
    async with service.state.database.transaction() as db:
        await db.execute("LOCK TABLE membership")
        await sql(service, "UPDATE plant SET name = 'Meanwhile' WHERE id = %s", plant.id)
        await asyncio.sleep(7)  # longer than a statement waits for a lock
    async with asyncio.timeout(30):
        assert (await until(stream, "plants"))[0]["name"] == "Meanwhile"
    await closed(stream)


async def test_a_stream_ends_with_its_session_although_the_client_has_a_key(
    service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "TICK_SECONDS", 0.2)
    plant = await RecordedPlant.create(service.state.database)
    session = await viewer_of(service, plant.organization_id)
    shown = await add_plant(service.state.database, plant.organization_id)
    _, key = await key_headers(service.state.database, plant.organization_id, ["telemetry:read"], [shown])
    stream = await opened(service, session | key)
    assert (await service.client.post("/api/v1/auth/logout", headers=session)).is_success
    assert await stream.named_event(20) is None


async def test_a_stream_ends_with_its_key_while_others_get_commands(
    service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed reads these commands all the time, and has nothing to show."""
    monkeypatch.setattr(feed, "TICK_SECONDS", 0.5)
    database = service.state.database
    plant = await RecordedPlant.create(database)
    shown = await add_plant(database, plant.organization_id)
    _, key = await key_headers(database, plant.organization_id, ["telemetry:read", "commands:read"], [shown])
    stream = await opened(service, key)

    async def command_on() -> None:
        while True:
            await add_command(service, plant)
            await asyncio.sleep(0.05)

    async with running(command_on()):
        await asyncio.sleep(2)
        await sql(service, "UPDATE partner_key SET revoked_at = now()")
        service.state.access.invalidate("*")
        assert await stream.named_event(20) is None
    await stream.task


async def test_many_watchers_cost_one_read(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    read = feed.live_plants

    async def counted(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(*arguments)

    monkeypatch.setattr(feed, "live_plants", counted)
    plant = await RecordedPlant.create(service.state.database)
    streams = [await opened(service, await viewer_of(service, plant.organization_id)) for _ in range(8)]
    await sql(service, "UPDATE plant SET name = 'Changed' WHERE id = %s", plant.id)
    for stream in streams:
        assert (await until(stream, "plants"))[0]["name"] == "Changed"
    assert reads == 1
    await closed(*streams)


async def test_a_user_has_a_bounded_number_of_streams(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.api.access.streams.MOST_OF_CALLER", 2)
    plant = await RecordedPlant.create(service.state.database)
    headers = await viewer_of(service, plant.organization_id)
    streams = [await opened(service, headers), OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers)]
    assert await streams[1].event() == []
    answer = await service.client.get(PATH, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_REQUESTS")
    streams.append(await opened(service, await viewer_of(service, plant.organization_id)))
    await closed(*streams)
