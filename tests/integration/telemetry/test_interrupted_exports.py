"""A long response of telemetry ends early, without its proper end, once its caller may no longer read the plant."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from gridfleet.domains.telemetry.history import raw
from gridfleet.kernel.clock import utc_now
from gridfleet.protocol.envelope import format_time
from support.builders.accounts import add_organization
from support.builders.clock import set_clock
from support.builders.telemetry_records import RecordedPlant, add_plant
from support.clients.open_stream import OpenStream
from support.clients.people import People, Person
from support.servers.api_service import api_service

NOW = utc_now().replace(microsecond=0)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
POINTS = 600
LATER = 4242.0
"""A value that is measured while the response is sent."""


@dataclass(frozen=True)
class Export:
    """The response to a VIEWER, who has read the first of six pages."""

    people: People
    viewer: Person
    plant: RecordedPlant
    stream: OpenStream

    async def rest(self) -> tuple[bytes, bool]:
        """Return what the client receives after another value was measured, and whether the response was ended properly."""
        await self.plant.write(None, ["a"], {NOW: [LATER]})
        return await self.stream.rest()


@pytest.fixture
async def people(database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[People]:
    monkeypatch.setattr(raw, "PAGE_POINTS", POINTS // 6)
    async with api_service(database_url, home) as service:
        yield People(service)


async def begin(people: People) -> Export:
    viewer = await people.person()
    database = people.service.state.database
    organization = await people.organization(VIEWER=viewer)
    plant = RecordedPlant(database, organization.id, await add_plant(database, organization.id))
    await plant.write(None, ["a"], {NOW - number * SECOND: [0.5] for number in range(1, POINTS + 1)})
    query = {"plantId": plant.id, "from": format_time(NOW - HOUR), "to": format_time(NOW + HOUR)}
    headers = {**viewer.headers, "x-org-id": str(organization.id), "accept": "application/x-ndjson"}
    stream = OpenStream(people.service, "/api/v1/telemetry", headers, urlencode(query), reads=False)
    async with asyncio.timeout(60):
        await stream.pieces.get()
    return Export(people, viewer, plant, stream)


async def log_out(export: Export) -> None:
    assert (await export.people.call("POST", "/auth/logout", who=export.viewer)).is_success


async def leave(export: Export) -> None:
    admin, org = await export.people.person(super_admin=True), export.plant.organization_id
    members = (await export.people.call("GET", f"/organizations/{org}/members", who=admin)).json()["data"]
    assert (await export.people.call("DELETE", f"/organizations/{org}/members/{members[0]['id']}", who=admin)).is_success


async def move(export: Export) -> None:
    admin, buyer = await export.people.person(super_admin=True), await add_organization(export.plant.database)
    path, body = f"/plants/{export.plant.id}", {"organizationId": str(buyer.id)}
    assert (await export.people.call("PATCH", path, body, admin, export.plant.organization_id)).is_success


async def delete(export: Export) -> None:
    admin = await export.people.person(super_admin=True)
    path = f"/plants/{export.plant.id}"
    assert (await export.people.call("DELETE", path, who=admin, org=export.plant.organization_id)).is_success


@pytest.mark.parametrize("end", [log_out, leave, move, delete])
async def test_a_caller_who_loses_the_right_gets_no_further_page(
    people: People, end: Callable[[Export], Awaitable[None]]
) -> None:
    export = await begin(people)
    await end(export)
    text, ended = await (export.rest() if end is not delete else export.stream.rest())
    assert (text.count(b"\n"), ended, str(LATER).encode() in text) == (0, False, False)


async def test_an_access_token_that_expires_meanwhile_ends_no_response(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    export = await begin(people)
    set_clock(monkeypatch, lambda: NOW + 2 * HOUR)
    assert (await people.call("GET", "/auth/me", who=export.viewer)).status_code == 401
    text, ended = await export.rest()
    assert (ended, str(LATER).encode() in text) == (True, True)
