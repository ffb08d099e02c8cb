"""Refused messages and unregistered devices of all plants over HTTP, against a plain model."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.plants.refused_messages.listing.queries import list_refused_messages, list_unregistered_devices
from gridfleet.domains.plants.refused_messages.models import RefusedFilter, UnregisteredSeen
from gridfleet.domains.plants.refused_messages.records import record_unregistered_devices
from gridfleet.kernel.db import Database
from gridfleet.kernel.pagination import CursorPaging
from gridfleet.protocol.envelope import RefusalReason
from support.builders.alerting import ago, snapshot
from support.builders.api_keys import key_headers
from support.builders.telemetry_records import member
from support.clients.ingest_bench import Bench
from support.clients.plants_over_http import Fleet, fleet_over_http

NOW = datetime.now(UTC).replace(microsecond=123456)
REASONS = list(RefusalReason)
BOTH = ("refused-messages", "unregistered-devices")


@dataclass(frozen=True)
class Found:
    """A refused message, or a device that was first seen at `at`; `name` is its id."""

    plant: UUID
    at: datetime
    name: str
    reason: RefusalReason | None = None


@dataclass
class Site:
    """An organisation with refused messages and unregistered devices of its plants, and another one."""

    fleet: Fleet
    plants: list[UUID] = field(default_factory=list)
    messages: list[Found] = field(default_factory=list)
    devices: list[Found] = field(default_factory=list)

    @property
    def organization(self) -> UUID:
        return UUID(self.fleet.admin["x-org-id"])

    async def add_plant(self, headers: dict[str, str]) -> UUID:
        _, plant = await self.fleet.call(
            "POST", "/plants", {"name": "Roof", "serialNumber": uuid4().hex, "type": "GATEWAY"}, headers
        )
        return UUID(plant["id"])

    async def add(self, plant: UUID, chosen: random.Random) -> tuple[Found, Found]:
        # Equal times, so that the further parts of the key decide.
        at = NOW - timedelta(hours=chosen.randrange(5))
        message = Found(plant, at, str(uuid4()), chosen.choice(REASONS))
        await self.fleet.sql(
            "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
            " VALUES (%s, %s, %s, 't', %s, 'd', 1)",
            UUID(message.name),
            plant,
            at,
            message.reason,
        )
        device = Found(plant, at, f"D{chosen.randrange(10**9)}")
        await self.fleet.sql(
            "INSERT INTO unregistered_device (plant_id, external_id, first_seen_at, last_seen_at, count)"
            " VALUES (%s, %s, %s, %s, 3)",
            plant,
            device.name,
            at,
            NOW,
        )
        return message, device

    async def pages(self, path: str, query: list[tuple[str, str]], headers: dict[str, str]) -> tuple[list[Any], set[int]]:
        """Return the records of all pages, and the totals that they name."""
        found: list[Any] = []
        totals: set[int] = set()
        cursor: list[tuple[str, str]] = []
        for _ in range(200):
            answer = await self.fleet.service.client.get(f"/api/v1/fleet/{path}", params=[*query, *cursor], headers=headers)
            assert answer.status_code == 200, answer.text
            body = answer.json()
            found += body["data"]
            totals.add(body["meta"]["total"])
            if body["meta"]["nextCursor"] is None:
                return found, totals
            assert len(body["data"]) == body["meta"]["limit"]
            cursor = [("cursor", body["meta"]["nextCursor"])]
        raise AssertionError("the list does not end")


@pytest.fixture
async def empty(database_url: str, home: Path) -> AsyncIterator[Site]:
    async with fleet_over_http(database_url, home, rate_limits="off") as fleet:
        yield Site(fleet)


@pytest.fixture
async def site(empty: Site) -> Site:
    chosen = random.Random(15)
    empty.plants = [await empty.add_plant(empty.fleet.admin) for _ in range(3)]
    foreign = await empty.add_plant(empty.fleet.stranger)
    for plant in (*empty.plants, foreign):
        for _ in range(20):
            message, device = await empty.add(plant, chosen)
            if plant != foreign:
                empty.messages.append(message)
                empty.devices.append(device)
    return empty


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(data=st.data())
async def test_filters_and_pages_are_those_of_a_model(site: Site, data: st.DataObject) -> None:
    draw = data.draw
    path = draw(st.sampled_from(BOTH))
    plant = draw(st.none() | st.sampled_from(range(4)))
    hours = draw(st.none() | st.tuples(st.integers(-1, 4), st.integers(1, 6)))
    reasons = draw(st.sets(st.sampled_from(REASONS))) if path == BOTH[0] else set[RefusalReason]()
    allowed = draw(st.none() | st.sets(st.sampled_from(range(3))))
    many = draw(st.booleans())
    query = [("limit", str(draw(st.sampled_from([1, 7, 100]))))] + [("reason", one) for one in reasons]
    wanted = site.messages if path == BOTH[0] else site.devices
    if plant is not None:
        plant_id = site.plants[plant] if plant < 3 else uuid4()
        query.append(("plantId", str(plant_id)))
        wanted = [one for one in wanted if one.plant == plant_id]
    if hours is not None:
        until = NOW - timedelta(hours=hours[0])
        since = until - timedelta(hours=hours[1])
        query += [("from", since.isoformat()), ("to", until.isoformat())]
        wanted = [one for one in wanted if since <= one.at < until]
    wanted = [one for one in wanted if not reasons or one.reason in reasons]
    headers = site.fleet.viewer
    if allowed is not None:
        # A key of many plants is served from another index than a key of few.
        ids = {site.plants[number] for number in allowed}
        others = {uuid4() for _ in range(150)} if many else set[UUID]()
        _, headers = await key_headers(site.fleet.service.state.database, site.organization, ["plants:read"], ids | others)
        wanted = [one for one in wanted if one.plant in ids]

    found, totals = await site.pages(path, query, headers)

    key = (lambda one: (one.at, one.name)) if path == BOTH[0] else (lambda one: (one.at, str(one.plant), one.name))
    ordered = sorted(wanted, key=key, reverse=True)
    assert [(one["plantId"], one["plantName"], one.get("externalId", one.get("id"))) for one in found] == [
        (str(one.plant), "Roof", one.name) for one in ordered
    ]
    assert totals == {len(ordered)}


async def test_what_a_plant_sends_is_listed_in_its_organisation(database: Database) -> None:
    bench = Bench(database)
    plant, other = await bench.plant(["bat1"]), await bench.plant()
    await bench.take(plant.delivery(b"{"))
    await bench.take(plant.message(snapshot(ago(5), new={"x": 1})))

    async with database.transaction() as db:
        messages = await list_refused_messages(db, member(plant.organization_id), RefusedFilter(), CursorPaging())
        devices = await list_unregistered_devices(db, member(plant.organization_id), RefusedFilter(), CursorPaging())
        foreign = await list_refused_messages(db, member(other.organization_id), RefusedFilter(), CursorPaging())

    assert [(one.plant_id, one.plant_name, one.reason) for one in messages.data] == [
        (plant.id, "Plant", RefusalReason.MALFORMED)
    ]
    assert [(one.plant_id, one.external_id, one.count) for one in devices.data] == [(plant.id, "new", 1)]
    assert foreign.data == []


async def test_a_device_that_is_registered_is_listed_no_longer(site: Site) -> None:
    fleet, device = site.fleet, site.devices[0]
    body = {"externalId": device.name, "name": "D", "type": "METER"}
    assert (await fleet.call("POST", f"/plants/{device.plant}/sub-devices", body))[0] == 201

    found, totals = await site.pages(BOTH[1], [("limit", "100")], fleet.viewer)

    assert device.name not in {one["externalId"] for one in found}
    assert totals == {len(site.devices) - 1}
    assert await fleet.sql("SELECT FROM unregistered_device WHERE external_id = %s", device.name) == []
    # A batch that was read before the registration writes it again.
    async with fleet.service.state.database.transaction() as db:
        await record_unregistered_devices(db, [UnregisteredSeen(device.plant, device.name, NOW, 1, [])])
    assert (await site.pages(BOTH[1], [("limit", "100")], fleet.viewer))[1] == totals


async def test_a_plant_that_moves_takes_neither_along(site: Site) -> None:
    fleet, plant = site.fleet, site.plants[0]

    status, _ = await fleet.call("PATCH", f"/plants/{plant}", {"organizationId": fleet.stranger["x-org-id"]}, fleet.super_admin)

    assert status == 200
    for path in BOTH:
        assert (await site.pages(path, [], fleet.viewer))[1] == {40}
        assert (await site.pages(path, [("plantId", str(plant))], fleet.stranger))[0] == []
    assert (await fleet.call("GET", f"/plants/{plant}/refused-messages", headers=fleet.stranger))[1]["data"] == []
    assert (await fleet.call("GET", f"/plants/{plant}/unregistered-devices", headers=fleet.stranger))[1] == []
    async with fleet.service.state.database.transaction() as db:
        await record_unregistered_devices(db, [UnregisteredSeen(plant, site.devices[0].name, NOW, 1, ["soc"])])
    [seen] = (await site.pages(BOTH[1], [("plantId", str(plant))], fleet.stranger))[0]
    assert (seen["externalId"], seen["count"], seen["fields"]) == (site.devices[0].name, 1, ["soc"])


@pytest.mark.parametrize(
    ("query", "details"),
    [
        ("refused-messages?plantId=1&reason=X&from=now&limit=101&cursor=x", ["cursor", "from", "limit", "plantId", "reason.0"]),
        ("unregistered-devices?plantId=1&reason=MALFORMED&from=now&limit=0", ["from", "limit", "plantId", "reason"]),
        ("unregistered-devices?cursor=WyIyMDI2LTExLTIzVDA4OjIxOjQxWiIsMV0", ["cursor"]),
        *((f"{path}?from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", ["from"]) for path in BOTH),
    ],
)
async def test_every_error_of_a_query_is_named(empty: Site, query: str, details: list[str]) -> None:
    status, answer = await empty.fleet.call("GET", f"/fleet/{query}")

    assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
    assert sorted({line.split(":")[0] for line in answer["details"]}) == details


async def test_a_cursor_with_a_character_that_no_text_can_have_is_refused(empty: Site) -> None:
    cursor = "WyIyMDI2LTExLTIzVDA4OjIxOjQxWiIsIjAxOTJmMGMxLTJjMWEtN2MzZS05YjBhLTNkMWY1YTJiNGM2ZCIsIlx1MDAwMCJd"
    status, answer = await empty.fleet.call("GET", f"/fleet/unregistered-devices?cursor={cursor}")
    assert (status, answer["details"]) == (400, ["cursor: must be the `nextCursor` of a page of this list"])
