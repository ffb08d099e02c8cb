"""The live view: a change is sent about a second later, and only to callers who may still see it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gridfleet.api.http.json_out import to_json
from gridfleet.api.plants import live as api_live
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.telemetry.history import live
from gridfleet.domains.telemetry.history.live import LiveValues, ValueChanges
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.domains.telemetry.latest import queries as latest
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_user, session_of
from support.builders.clock import set_clock
from support.builders.telemetry_records import RecordedPlant, add_plant, member
from support.clients.live_watch import next_change
from support.clients.open_stream import OpenStream
from support.servers.api_service import ApiService, api_service, bearer

NOW = utc_now().replace(microsecond=0)
SECOND = timedelta(seconds=1)


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home) as running:
        yield running


async def test_changes_come_as_events_and_end_with_the_session(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    await plant.add_device("PV1")
    await plant.write(None, ["a", "b"], {NOW: [1.0, 2.0]})
    user = await add_user(service.state.database)
    await add_member(service.state.database, plant.organization_id, user.id, OrgRole.VIEWER)
    token = await session_of(service.state.database, service.state.access_tokens, user)
    headers = {**bearer(token), "x-org-id": str(plant.organization_id)}
    stream = OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers)
    assert await stream.event() == [("a", 1.0), ("b", 2.0)]
    assert stream.status == 200
    await plant.write(None, ["a", "b"], {NOW + SECOND: [None, 3.0]})
    assert await stream.event() == [("b", 3.0)]
    await plant.write("PV1", ["p"], {NOW: [9.0]})
    assert await stream.event() == [("PV1.p", 9.0)]
    answer = await service.client.post("/api/v1/auth/logout", headers=headers)
    assert answer.is_success
    assert await stream.event() is None
    await stream.task
    assert service.state.live.watchers == 0


async def test_a_client_that_leaves_is_noticed(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.api.streams.QUIET_SECONDS", 1.0)
    plant = await RecordedPlant.create(service.state.database)
    headers = {**await service.super_admin(), "x-org-id": str(plant.organization_id)}
    stream = OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers)
    await stream.pieces.get()
    assert service.state.live.watchers == 1
    stream.left.set()
    await asyncio.wait_for(stream.task, 5)
    assert service.state.live.watchers == 0


async def test_a_process_that_stops_waits_for_no_watcher(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    headers = {**await service.super_admin(), "x-org-id": str(plant.organization_id)}
    stream = OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers)
    assert await stream.event() == [("a", 1.0)]
    service.state.live.close()
    assert await stream.event() is None
    await stream.task


async def test_a_reading_in_progress_does_not_keep_watchers(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    values = LiveValues(database)
    watching = values.watch(plant.org, plant.id, database.transaction)
    await anext(watching)
    waiting = asyncio.ensure_future(anext(watching))
    async with database.transaction() as db:
        await db.execute("LOCK TABLE telemetry_latest")
        await asyncio.sleep(live.EVERY_SECONDS + 0.5)
        values.close()
        await waiting
    await asyncio.sleep(0.5)
    with pytest.raises(StopAsyncIteration):
        await anext(watching)


async def test_who_may_not_see_the_plant_gets_the_usual_refusals(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    headers = {
        **await service.super_admin(),
        "x-org-id": str((await RecordedPlant.create(service.state.database)).organization_id),
    }
    answer: httpx.Response = await service.client.get(f"/api/v1/plants/{plant.id}/live", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (404, "PLANT_NOT_FOUND")
    answer = await service.client.get(f"/api/v1/plants/{plant.id}/live")
    assert answer.json()["code"] == "UNAUTHORIZED"
    assert service.state.live.watchers == 0


async def test_many_watchers_share_the_reading(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    values = LiveValues(database)
    watching = [values.watch(plant.org, plant.id, database.transaction) for _ in range(20)]
    for one in watching:
        assert [point.value for point in (await anext(one)).points] == [1.0]
    await plant.write(None, ["a"], {NOW + SECOND: [2.0]})
    received = []
    for one in watching:
        changes = await next_change(one)
        assert [point.value for point in changes.points] == [2.0]
        received.append(changes)
        await one.aclose()
    assert all(changes is received[0] for changes in received)  # so that it is encoded once
    assert values.watchers == 0
    with pytest.raises(PlantNotFound):
        await anext(values.watch(member(plant.organization_id, frozenset()), plant.id, database.transaction))


async def test_a_caller_who_may_not_see_a_plant_ends_no_watch_of_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    values, asked, joined = LiveValues(database), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slowly() -> AsyncIterator[Connection]:
        asked.set()
        await joined.wait()
        async with database.transaction() as db:
            yield db

    refused = asyncio.create_task(anext(values.watch(member(plant.organization_id, frozenset({new_id()})), plant.id, slowly)))
    await asked.wait()
    watching = values.watch(plant.org, plant.id, database.transaction)
    assert [point.value for point in (await anext(watching)).points] == [1.0]
    joined.set()
    with pytest.raises(PlantNotFound):
        await refused
    await plant.write(None, ["a"], {NOW + SECOND: [2.0]})
    assert [point.value for point in (await next_change(watching)).points] == [2.0]
    await watching.aclose()


async def test_watchers_outlive_a_database_that_does_not_do_its_work(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a table is repaired."""
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    watching = LiveValues(database).watch(plant.org, plant.id, database.transaction)
    assert [point.value for point in (await anext(watching)).points] == [1.0]
    for before, after in (("telemetry_latest", "away"), ("away", "telemetry_latest")):
        async with database.transaction() as db:
            await db.execute(f"ALTER TABLE {before} RENAME TO {after}".encode())
        assert (await anext(watching)).points == []  # a turn in which nothing changed
        assert (await anext(watching)).points == []
    await plant.write(None, ["a"], {NOW + SECOND: [2.0]})
    assert [point.value for point in (await next_change(watching)).points] == [2.0]
    await watching.aclose()


async def test_a_plant_that_cannot_be_read_does_not_stop_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    failing, other = await RecordedPlant.create(database), await RecordedPlant.create(database)
    values = LiveValues(database)
    watching = [values.watch(plant.org, plant.id, database.transaction) for plant in (failing, other)]
    for plant, watch in zip((failing, other), watching, strict=True):
        await plant.write(None, ["a"], {NOW: [1.0]})
        assert [point.value for point in (await anext(watch)).points] == [1.0]
    async with database.transaction() as db:
        await db.execute(
            "UPDATE telemetry_latest SET vals = '{}' WHERE source_id IN (SELECT id FROM telemetry_source WHERE plant_id = %s)",
            (failing.id,),
        )
    for number in (1, 2):
        await other.write(None, ["a"], {NOW + number * SECOND: [1.0 + number]})
        assert [point.value for point in (await next_change(watching[1], 20)).points] == [1.0 + number]
    async with asyncio.timeout(20):
        assert [changes async for changes in watching[0] if changes.points] == []
    await watching[1].aclose()


async def test_one_organisations_plants_leave_room_for_others(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_PLANTS", 4)
    plant, neighbour = await RecordedPlant.create(database), await RecordedPlant.create(database)
    values = LiveValues(database)
    scope = member(plant.organization_id)
    plants = [plant.id, *[await add_plant(database, plant.organization_id) for _ in range(2)]]
    watching = [values.watch(scope, plant_id, database.transaction) for plant_id in plants]
    for one in watching[:2]:
        await anext(one)
    with pytest.raises(TooManyRequests):
        await anext(watching[2])
    second = values.watch(scope, plants[0], database.transaction)
    await anext(second)
    beside = values.watch(neighbour.org, neighbour.id, database.transaction)
    await anext(beside)
    for one in (*watching, second, beside):
        await one.aclose()
    assert values.watchers == 0


@pytest.mark.parametrize(("most_plants", "most_values"), [(8, 1_000), (1_000, 8)])
async def test_two_organisations_leave_room_for_a_third(
    database: Database, monkeypatch: pytest.MonkeyPatch, most_plants: int, most_values: int
) -> None:
    monkeypatch.setattr(live, "MOST_PLANTS", most_plants)
    monkeypatch.setattr(live, "MOST_VALUES", most_values)
    monkeypatch.setattr(live, "SHARE_OF_WATCHER", 0)
    values = LiveValues(database)
    watching = []
    for watched in (4, 2, 1):
        first = await RecordedPlant.create(database)
        others = [await add_plant(database, first.organization_id) for _ in range(4)]
        got = 0
        for plant in (first, *(RecordedPlant(database, first.organization_id, plant_id) for plant_id in others)):
            await plant.write(None, ["a"], {NOW: [1.0]})
            stream = values.watch(plant.org, plant.id, database.transaction)
            with contextlib.suppress(TooManyRequests):
                got += len((await anext(stream)).points)
                watching.append(stream)
        assert got == watched
    for stream in watching:
        await stream.aclose()
    assert values.watchers == 0


async def test_one_organisations_values_leave_room_for_others(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values count for their plant and again for its watchers, here once for each."""
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(live, "MOST_VALUES", 12)
    monkeypatch.setattr(live, "SHARE_OF_WATCHER", 1)
    plant, neighbour = await RecordedPlant.create(database), await RecordedPlant.create(database)
    await plant.write(None, ["a", "b"], {NOW: [1.0, 2.0]})
    await neighbour.write(None, ["a"], {NOW: [1.0]})  # of half the values that are left
    values = LiveValues(database)
    first, second, third = (values.watch(plant.org, plant.id, database.transaction) for _ in range(3))
    assert len((await anext(first)).points) == len((await anext(second)).points) == 2
    with pytest.raises(TooManyRequests):
        await anext(third)
    beside = values.watch(neighbour.org, neighbour.id, database.transaction)
    assert len((await anext(beside)).points) == 1
    await neighbour.add_device("PV1")
    await neighbour.write("PV1", ["b", "c", "d", "e"], {NOW: [2.0, 3.0, 4.0, 5.0]})
    assert [len(changed.points) async for changed in beside if changed.points] == [4]
    assert len((await anext(second)).points) == 0
    for one in (first, second):
        await one.aclose()
    assert values.watchers == 0


async def test_values_that_plants_gain_while_they_are_watched_count(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an organisation opens streams of small plants, and lets all of them grow."""
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(live, "MOST_VALUES", 12)
    small, neighbour = await RecordedPlant.create(database), await RecordedPlant.create(database)
    large = RecordedPlant(database, small.organization_id, await add_plant(database, small.organization_id))
    for plant in (small, large, neighbour):
        await plant.write(None, ["a", "b"], {NOW: [1.0, 2.0]})
    values = LiveValues(database)
    watching = {plant.id: values.watch(plant.org, plant.id, database.transaction) for plant in (small, large, neighbour)}
    for one in watching.values():
        assert len((await anext(one)).points) == 2
    await large.add_device("PV1")
    await large.write("PV1", ["c", "d", "e"], {NOW: [3.0, 4.0, 5.0]})
    async with asyncio.timeout(60):
        assert sum([len(changed.points) async for changed in watching[large.id]]) <= 3  # it ends
    for plant in (small, neighbour):
        await plant.write(None, ["a", "b"], {NOW + SECOND: [3.0, None]})
        assert [point.value for point in (await next_change(watching[plant.id])).points] == [3.0]
        await watching[plant.id].aclose()
    assert values.watchers == 0


async def test_values_without_watchers_make_room(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_VALUES", 8)
    first = await RecordedPlant.create(database)
    second = RecordedPlant(database, first.organization_id, await add_plant(database, first.organization_id))
    values = LiveValues(database)

    async def received(plant: RecordedPlant, last_id: str | None = None) -> ValueChanges:
        watching = values.watch(plant.org, plant.id, database.transaction, last_id)
        changes = await anext(watching)
        await watching.aclose()
        return changes

    for plant in (first, second):
        await plant.write(None, ["a", "b", "c"], {NOW: [1.0, 2.0, 3.0]})
    before = await received(first)
    assert (await received(first, before.id)).points == []  # it is kept
    assert len((await received(second)).points) == 3
    assert len((await received(first, before.id)).points) == 3  # it was not


async def test_the_values_of_a_large_plant_are_made_in_a_thread(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noted(*values: Any) -> TelemetryPoint:
        threads.append(threading.get_ident())
        return TelemetryPoint(*values)

    monkeypatch.setattr(latest, "TelemetryPoint", noted)
    plant = await RecordedPlant.create(database)
    async with database.transaction() as db:
        for count in (100, 3_000):
            await plant.write(None, [f"n{number}" for number in range(count)], {NOW: [1.0] * count})
            assert len(await latest.latest_points(db, plant.org, plant.id)) == count
    assert set(threads[:100]) == {threading.get_ident()}
    assert threading.get_ident() not in threads[100:]


async def test_an_event_of_many_values_is_encoded_once_for_all_watchers(
    service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []

    def noted(points: list[TelemetryPoint]) -> bytes:
        encoded.append(len(points))
        return to_json(points)

    monkeypatch.setattr(api_live, "to_json", noted)
    plant = await RecordedPlant.create(service.state.database)
    names = [f"n{number}" for number in range(2_500)]
    await plant.write(None, names, {NOW: [1.0] * len(names)})
    headers = {**await service.super_admin(), "x-org-id": str(plant.organization_id)}
    streams = [OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers) for _ in range(5)]
    for stream in streams:
        assert len(await stream.event() or ()) == len(names)
    encoded.clear()
    await plant.write(None, names, {NOW + SECOND: [2.0] * len(names)})
    for stream in streams:
        assert len(await stream.event() or ()) == len(names)
        stream.task.cancel()
    await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)
    assert encoded == [len(names)]


async def test_a_client_that_comes_back_gets_what_changed_meanwhile(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    await plant.write(None, ["a", "b"], {NOW: [1.0, 2.0]})
    headers = {**await service.super_admin(), "x-org-id": str(plant.organization_id)}
    path = f"/api/v1/plants/{plant.id}/live"
    stream = OpenStream(service, path, headers)
    first = await stream.named_event()
    assert first is not None
    stream.left.set()
    service.state.live.close()  # as when the client is noticed to have left
    await stream.task
    stream = OpenStream(service, path, headers)
    first = await stream.named_event()
    assert first is not None
    stream.task.cancel()
    await asyncio.gather(stream.task, return_exceptions=True)
    await plant.write(None, ["a", "b"], {NOW + SECOND: [None, 3.0]})
    last_id = first[2] or ""
    for how, query in (({"last-event-id": last_id}, ""), ({}, f"lastEventId={last_id}")):
        again = OpenStream(service, path, {**headers, **how}, query)
        assert await again.event() == [("b", 3.0)]
        again.task.cancel()
        await asyncio.gather(again.task, return_exceptions=True)
    for unknown in ("", "0-1", f"{last_id}9", "x" * 60, last_id.replace("-", "")):
        again = OpenStream(service, path, {**headers, "last-event-id": unknown})
        assert len(await again.event() or []) == (2 if not unknown.startswith(last_id) else 0)
        again.task.cancel()
        await asyncio.gather(again.task, return_exceptions=True)
    assert service.state.live.watchers == 0


async def test_an_event_source_names_its_organisation_in_the_query(service: ApiService) -> None:
    plant = await RecordedPlant.create(service.state.database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    other = await RecordedPlant.create(service.state.database)
    token = (await service.super_admin())["authorization"].removeprefix("Bearer ")
    cookie = {"cookie": f"gridfleet_session={token}"}
    path = f"/api/v1/plants/{plant.id}/live"
    stream = OpenStream(service, path, cookie, f"organizationId={plant.organization_id}")
    assert await stream.event() == [("a", 1.0)]
    stream.task.cancel()
    await asyncio.gather(stream.task, return_exceptions=True)
    for query, headers, code in (
        ("", cookie, "FORBIDDEN"),
        (f"organizationId={other.organization_id}", cookie, "PLANT_NOT_FOUND"),
        (f"organizationId={plant.organization_id}", {**cookie, "x-org-id": str(other.organization_id)}, "FORBIDDEN"),
        ("organizationId=5", cookie, "FORBIDDEN"),
        (f"organizationId={plant.organization_id}&more=1", cookie, "VALIDATION_ERROR"),
        (f"organizationId={plant.organization_id}", {}, "UNAUTHORIZED"),
    ):
        answer = await service.client.get(f"{path}?{query}", headers=headers)
        assert answer.json()["code"] == code, query
    for stream_path in (path, "/api/v1/fleet/live"):
        answer = await service.client.get(stream_path, headers=cookie)
        assert "with the x-org-id header or the organizationId parameter," in answer.json()["message"]
    # Other endpoints take the header alone.
    answer = await service.client.get(f"/api/v1/plants?organizationId={plant.organization_id}", headers=cookie)
    assert answer.json()["code"] == "FORBIDDEN"
    assert "with the x-org-id header, by its id" in answer.json()["message"]


async def test_a_stream_outlives_its_access_token_and_not_its_session(
    service: ApiService, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await RecordedPlant.create(service.state.database)
    await plant.write(None, ["a"], {NOW: [1.0]})
    user = await add_user(service.state.database)
    await add_member(service.state.database, plant.organization_id, user.id, OrgRole.VIEWER)
    token = await session_of(service.state.database, service.state.access_tokens, user)
    headers = {**bearer(token), "x-org-id": str(plant.organization_id)}
    stream = OpenStream(service, f"/api/v1/plants/{plant.id}/live", headers)
    assert await stream.event() == [("a", 1.0)]
    later = utc_now() + timedelta(hours=1)
    set_clock(monkeypatch, lambda: later)
    answer = await service.client.get("/api/v1/auth/me", headers=headers)
    assert answer.json()["code"] == "UNAUTHORIZED"
    await plant.write(None, ["a"], {NOW + SECOND: [2.0]})
    assert await stream.event() == [("a", 2.0)]
    monkeypatch.undo()
    async with service.state.database.transaction() as db:
        await db.execute("DELETE FROM membership WHERE user_id = %s", (user.id,))
    service.state.access.invalidate(str(user.id))
    assert await stream.event() is None
    await stream.task
