"""A browser's own EventSource reads the streams with the session cookie, comes back by itself, and ends with the session."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from playwright.sync_api import Page

from gridfleet.kernel.ids import new_id
from support.clients.console_user import PASSWORD, ConsoleUser
from support.clients.watched_page import Watched
from support.servers.served import Served

OPEN = """
url => {
  window.received = [];
  window.source = new EventSource(url);
  for (const name of ["summary", "plants", "reset", "values"])
    window.source.addEventListener(name, event => window.received.push([name, event.data, event.lastEventId]));
  window.source.onerror = () => window.received.push(["error", "", ""]);
}
"""


def sql(database_url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(database_url) as db:
        cursor = db.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def login(member: ConsoleUser) -> str:
    """The body of a login."""
    return json.dumps({"email": member.email, "password": PASSWORD})


def received(page: Page, name: str, part: str = "") -> None:
    """Wait for an event of this name with this text in its data."""
    condition = "([name, part]) => window.received.some(one => one[0] === name && one[1].includes(part))"
    page.wait_for_function(condition, arg=[name, part], timeout=60_000)


@pytest.fixture
def plant(database_url: str, user: Callable[..., ConsoleUser], watched: Watched) -> tuple[UUID, UUID]:
    """A plant, and its organisation, of a user who has logged in on a page of the service that may call it."""
    member = user()
    watched.page.goto("/docs")
    log_in = "body => fetch('/api/v1/auth/login', {method: 'POST', headers: {'content-type': 'application/json'}, body})"
    assert watched.page.evaluate(f"body => ({log_in})(body).then(response => response.status)", login(member)) == 200
    [[organization_id]] = sql(database_url, "SELECT id FROM organization WHERE slug = %s", member.slugs[0])
    plant_id = new_id()
    sql(
        database_url,
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
        " VALUES (%s, %s, 'Roof', 'SN-1', 'GATEWAY', 'TOKEN')",
        *(plant_id, organization_id),
    )
    return plant_id, organization_id


def test_it_resumes_where_it_was_interrupted(
    watched: Watched, plant: tuple[UUID, UUID], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.api.streams.RETRY_MILLISECONDS", (6_000, 6_000))
    page, (plant_id, organization_id) = watched.page, plant
    page.evaluate(OPEN, f"/api/v1/fleet/live?organizationId={organization_id}")
    received(page, "summary")
    sql(database_url, "UPDATE plant SET name = 'First' WHERE id = %s", plant_id)
    received(page, "plants", "First")
    [membership] = sql(database_url, "DELETE FROM membership WHERE organization_id = %s RETURNING *", organization_id)
    received(page, "error")
    values = ", ".join(["%s"] * len(membership))
    sql(database_url, f"INSERT INTO membership VALUES ({values})", *membership)
    sql(database_url, "UPDATE plant SET name = 'Second' WHERE id = %s", plant_id)
    received(page, "plants", "Second")
    names = page.evaluate("window.received.map(one => one[0])")
    assert names.count("reset") == 0
    # Neither is what came before sent again.
    assert page.evaluate("window.received.filter(one => one[1].includes('First')).length") == 1
    page.evaluate("window.source.close()")


def test_it_ends_with_the_session(
    watched: Watched, plant: tuple[UUID, UUID], service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.api.streams.RETRY_MILLISECONDS", (100, 100))
    page, (plant_id, organization_id) = watched.page, plant
    watched.allowed += ["401", "EventSource"]
    for path in (f"/plants/{plant_id}/live", "/fleet/live"):
        page.evaluate(OPEN, f"/api/v1{path}?organizationId={organization_id}")
        received(page, "values" if "plants" in path else "summary")
    assert page.evaluate("fetch('/api/v1/auth/logout', {method: 'POST'}).then(response => response.status)") == 200
    page.wait_for_function("() => window.source.readyState === EventSource.CLOSED", timeout=60_000)
