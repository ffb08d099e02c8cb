"""Requests of one organisation leave database connections for those of others."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gridfleet.api.access import shares
from support.builders.telemetry_records import add_plant, member
from support.clients.people import People


async def test_slow_requests_of_one_organisation_leave_connections_for_others(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "WAIT_SECONDS", 1.0)
    state = people.service.state
    first, second = await people.person(), await people.person()
    slow, other = await people.organization(VIEWER=first), await people.organization(VIEWER=second)
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(slow.id)))
        waiting = [asyncio.create_task(people.call("GET", "/plants", who=first, org=slow.id)) for _ in range(20)]
        await asyncio.sleep(0.2)
        assert (await people.call("GET", "/plants", who=second, org=other.id)).status_code == 200
        for refused in await asyncio.gather(*waiting):
            assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
            assert refused.headers["retry-after"] == "10"
    assert (await people.call("GET", "/plants", who=first, org=slow.id)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/plants/{id}/live", None),
        ("GET", "/trading/plants/{id}/meters", None),
        ("GET", "/trading/plants/{id}/config", None),
        ("POST", "/trading/plants/{id}/config", {"timeConfigs": []}),
        ("POST", "/trading/plants/sync", None),
        ("POST", "/trading/config", {"queuePrefix": "ours"}),
        ("DELETE", "/plants/{id}", None),
        ("DELETE", "/plants/{id}/sub-devices/meter", None),
    ],
)
async def test_requests_that_open_their_own_transactions_wait_for_the_share(
    people: People, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: object
) -> None:
    """Ten requests for the meters of a plant with hundreds of meters would occupy every connection for minutes."""
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.1)
    state = people.service.state
    admin = await people.person()
    busy = await people.organization(ORG_ADMIN=admin)
    plant_id = await add_plant(state.database, busy.id)
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(busy.id)))
        async with asyncio.timeout(10):
            refused = await people.call(method, path.format(id=plant_id), body, who=admin, org=busy.id)
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")


async def test_what_users_read_without_an_organisation_counts_for_their_own(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may have millions of deliveries: ten requests for them would occupy every connection."""
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.1)
    state = people.service.state
    viewer, stranger, admin = await people.person(), await people.person(), await people.person(super_admin=True)
    busy = await people.organization(VIEWER=viewer)
    for person in (viewer, admin):
        chosen = await people.call("PATCH", "/auth/default-org", {"organizationId": str(busy.id)}, who=person)
        assert chosen.status_code == 200
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(busy.id)))
        async with asyncio.timeout(30):
            refused = await people.call("GET", "/notifications/deliveries", who=viewer)
            assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
            for path, person in (
                ("/notifications/deliveries", stranger),
                ("/notifications/deliveries", admin),
                ("/users", admin),
            ):
                assert (await people.call("GET", path, who=person)).status_code == 200
            assert (await people.call("POST", "/auth/logout-all", who=viewer)).status_code == 200


async def test_users_without_an_organisation_leave_connections_for_others(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "WAIT_SECONDS", 1.0)
    state = people.service.state
    busy, other = await people.person(), await people.person()
    async with state.database.transaction() as db:
        await db.execute("LOCK TABLE notification_log")
        waiting = [asyncio.create_task(people.call("GET", "/notifications/deliveries", who=busy)) for _ in range(20)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(10):
            assert (await people.call("GET", "/auth/me", who=other)).status_code == 200
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_what_an_api_key_reads_of_templates_counts_for_its_organisation(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.1)
    state = people.service.state
    admin = await people.person()
    busy = await people.organization(ORG_ADMIN=admin)
    body = {"name": "Reader", "partnerId": "p", "scopes": ["plants:read"]}
    key = (await people.call("POST", "/partner/api-keys", body, who=admin, org=busy.id)).json()["key"]
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(busy.id)))
        refused = await people.call("GET", "/device-templates", headers={"x-api-key": key})
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
