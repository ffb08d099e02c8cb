"""What changes at the service changes on the screen, by one stream for all tabs."""

import re
import time
from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest
from playwright.sync_api import BrowserContext, Request, Route, expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched

SOON = 8_000
"""Milliseconds. Less than the interval at which lists are read again in any case."""


def rename(database_url: str, plant_id: UUID, name: str) -> None:
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET name = %s WHERE id = %s", (name, plant_id))


@pytest.fixture
def member(user: Callable[..., ConsoleUser]) -> ConsoleUser:
    return user()


@pytest.fixture
def plant(database_url: str, member: ConsoleUser) -> UUID:
    """Add a plant to the member's organisation."""
    plant_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
            " SELECT %s, id, 'Roof', 'SN-1', 'GATEWAY', 'TOKEN' FROM organization WHERE slug = %s",
            (plant_id, member.slugs[0]),
        )
    return plant_id


def test_two_tabs_share_a_stream_that_outlives_the_first(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    streams: list[str] = []

    def note(request: Request) -> None:
        if "/fleet/live" in request.url:
            streams.append(request.url)

    context.on("request", note)
    first = context.new_page()
    member.log_in(first)
    expect(first.get_by_role("link", name="Roof")).to_be_visible()
    second = watched.page
    second.goto(f"/console/o/{member.slugs[0]}/fleet")
    expect(second.get_by_role("link", name="Roof")).to_be_visible()
    # The page is shown before its stream is open; what happens in between is read again by the list.
    first.wait_for_timeout(2_000)
    rename(database_url, plant, "Barn")
    for page in (first, second):
        expect(page.get_by_role("link", name="Barn")).to_be_visible(timeout=SOON)
    assert len(streams) == 1
    first.close()
    with second.expect_request(lambda request: "/fleet/live" in request.url, timeout=SOON):
        pass
    second.wait_for_timeout(2_000)
    rename(database_url, plant, "Hall")
    expect(second.get_by_role("link", name="Hall")).to_be_visible(timeout=SOON)
    assert len(streams) == 2


def test_no_change_is_missed_while_another_tab_takes_over(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    first = context.new_page()
    member.log_in(first)
    expect(first.get_by_role("link", name="Roof")).to_be_visible()
    second = watched.page
    second.goto(f"/console/o/{member.slugs[0]}/fleet")
    expect(second.get_by_role("link", name="Roof")).to_be_visible()
    first.wait_for_timeout(2_000)

    def change_before(route: Route) -> None:
        rename(database_url, plant, "Barn")
        time.sleep(2)  # until the service has made an event of it
        route.continue_()

    second.route("**/api/v1/fleet/live?*", change_before)
    first.close()
    expect(second.get_by_role("link", name="Barn")).to_be_visible(timeout=SOON)


def test_hidden_tabs_leave_connections_for_requests(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    """Without TLS browsers offer locks on localhost alone, and each tab reads a stream of its own."""
    context.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'locks', { get: () => undefined });"
        "Object.defineProperty(Document.prototype, 'hidden', { get: () => window.isHidden === true });"
    )
    show = "isHidden => { window.isHidden = isHidden; document.dispatchEvent(new Event('visibilitychange')); }"
    member.log_in(watched.page)
    tabs = []
    for _ in range(7):  # browsers open six connections
        tabs.append(context.new_page())
        tabs[-1].goto(f"/console/o/{member.slugs[0]}/fleet")
        expect(tabs[-1].get_by_role("link", name="Roof")).to_be_visible()
        tabs[-1].evaluate(show, True)
    rename(database_url, plant, "Barn")
    expect(watched.page.get_by_role("link", name="Barn")).to_be_visible(timeout=SOON)
    tabs[0].evaluate(show, False)
    expect(tabs[0].get_by_role("link", name="Barn")).to_be_visible(timeout=SOON)
    rename(database_url, plant, "Hall")
    expect(tabs[0].get_by_role("link", name="Hall")).to_be_visible(timeout=SOON)


def test_a_lost_stream_is_said_and_opened_again(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    watched.allowed += ["Failed to load resource", "EventSource"]
    page = watched.page
    for path in ("fleet/live?*", "plant-groups?*"):
        context.route(f"**/api/v1/{path}", lambda route: route.abort())
    member.log_in(page)
    expect(page.get_by_text("The service cannot be reached at the moment.")).to_be_visible(timeout=30_000)
    for path in ("fleet/live?*", "plant-groups?*"):
        context.unroute(f"**/api/v1/{path}")
    expect(page.get_by_text("The service cannot be reached at the moment.")).to_be_hidden(timeout=60_000)
    page.wait_for_timeout(2_000)
    rename(database_url, plant, "Barn")
    expect(page.get_by_role("link", name="Barn")).to_be_visible(timeout=SOON)


def test_a_service_that_answers_without_a_stream_can_be_reached(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID
) -> None:
    """It refuses streams above a number of them, and its lists are read all the same. A proxy does not answer for it."""
    watched.allowed += ["Failed to load resource", "EventSource"]
    page = watched.page
    context.route("**/api/v1/fleet/live?*", lambda route: route.fulfill(status=429, json={}))
    member.log_in(page)
    expect(page.get_by_role("link", name="Roof")).to_be_visible()
    page.wait_for_timeout(12_000)
    lost = page.get_by_text("The service cannot be reached at the moment.")
    expect(lost).to_have_count(0)
    context.route("**/api/v1/plant-groups?*", lambda route: route.fulfill(status=502, body="<html>"))
    expect(lost).to_be_visible()
    context.unroute("**/api/v1/plant-groups?*")
    expect(lost).to_be_hidden()


def test_a_service_that_no_longer_answers_is_said(
    watched: Watched, context: BrowserContext, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    watched.allowed += ["Failed to load resource"]
    page = watched.page
    page.clock.install()
    member.log_in(page)
    rename(database_url, plant, "Hall")
    expect(page.get_by_role("link", name="Hall")).to_be_visible()
    # The open stream stays as it is, silent, as over a connection that is broken somewhere between.
    context.route("**/api/v1/**", lambda _: None)
    for _ in range(24):
        page.clock.run_for(10_000)
    expect(page.get_by_text("The service cannot be reached at the moment.")).to_be_visible()
    expect(page.get_by_role("alert").first).to_have_text(re.compile("The service cannot be reached. Try again in a moment."))
    context.unroute("**/api/v1/**")
    page.clock.run_for(10_000)
    expect(page.get_by_text("The service cannot be reached at the moment.")).to_be_hidden()
    rename(database_url, plant, "Barn")
    expect(page.get_by_role("link", name="Barn")).to_be_visible()


def test_a_power_without_a_word_for_its_direction_keeps_its_sign(
    watched: Watched, member: ConsoleUser, plant: UUID, database_url: str
) -> None:
    """An inverter consumes some watts at night, and the sign of its power may be configured wrongly."""
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'ONLINE', last_seen_at = now() WHERE id = %s", (plant,))
        db.execute(
            "INSERT INTO plant_power (plant_id, measured_at, pv_kw, grid_kw, load_kw) VALUES (%s, now(), -5, -1.5, -2)",
            (plant,),
        )
        # Without a newest value, the page of the plant says only that there is none.
        db.execute(
            "WITH source AS (INSERT INTO telemetry_source (organization_id, plant_id)"
            " SELECT organization_id, id FROM plant WHERE id = %s RETURNING id), layout AS (INSERT INTO telemetry_layout"
            " (digest, metrics, units, counters, minimums, maximums)"
            " VALUES ('signs', '{load_power}', '{kW}', '{false}', '{NULL}', '{NULL}') RETURNING id)"
            " INSERT INTO telemetry_latest (source_id, layout_id, time, vals)"
            " SELECT source.id, layout.id, now(), '{-2}' FROM source, layout",
            (plant,),
        )
    page = watched.page
    member.log_in(page)
    tiles = page.get_by_role("region", name="Totals of the fleet")
    expect(tiles.get_by_text("-5.00 kW", exact=True)).to_be_visible()
    expect(tiles.get_by_text("-2.00 kW", exact=True)).to_be_visible()
    row = page.get_by_role("row").filter(has_text="SN-1")
    expect(row.get_by_role("cell", name="PV -5.00 kW Load -2.00 kW", exact=True)).to_be_visible()
    expect(row.get_by_role("cell", name="Grid 1.50 kW exporting")).to_be_visible()
    row.get_by_role("link", name="Roof").click()
    flow = page.get_by_role("img", name="PV -5.00 kW, Grid 1.50 kW exporting, Load -2.00 kW", exact=True)
    expect(flow).to_contain_text("PV-5.00 kW")


@pytest.mark.parametrize(
    ("status", "interval", "minutes", "stale"),
    [
        ("ONLINE", 60, {"soc": 10, "soh": 30}, {"soh"}),
        ("ONLINE", 3600, {"soc": 40, "soh": 90}, {"soh"}),
        ("OFFLINE", 60, {"soc": 1, "soh": 2}, {"soc", "soh"}),
    ],
)
def test_newest_values_are_stale_as_the_service_says(
    watched: Watched,
    member: ConsoleUser,
    plant: UUID,
    database_url: str,
    status: str,
    interval: int,
    minutes: dict[str, int],
    stale: set[str],
) -> None:
    """The same as its power: values of a plant that sends every hour are not stale after some minutes."""
    with psycopg.connect(database_url) as db:
        db.execute(
            "UPDATE plant SET status = %s, usual_interval_seconds = %s, last_seen_at = now() WHERE id = %s",
            (status, interval, plant),
        )
        db.execute(
            "INSERT INTO plant_power (plant_id, measured_at, pv_kw) VALUES (%s, now() - %s * interval '1 minute', 5)",
            (plant, min(minutes.values())),
        )
        db.execute(
            "WITH source AS (INSERT INTO telemetry_source (organization_id, plant_id)"
            " SELECT organization_id, id FROM plant WHERE id = %s RETURNING id), layout AS (INSERT INTO telemetry_layout"
            " (digest, metrics, units, counters, minimums, maximums) VALUES"
            " ('stale', '{soc,soh}', '{%%,%%}', '{false,false}', '{NULL,NULL}', '{NULL,NULL}') RETURNING id)"
            " INSERT INTO telemetry_latest (source_id, layout_id, time, vals, times)"
            " SELECT source.id, layout.id, max(one), '{61,98}', array_agg(one) FROM source, layout,"
            " (SELECT now() - age * interval '1 minute' AS one FROM unnest(%s::int[]) AS age) AS ages GROUP BY 1, 2",
            (plant, [minutes["soc"], minutes["soh"]]),
        )
    page = watched.page
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant}/live")
    expect(page.get_by_role("heading", name="Energy flow")).to_be_visible()
    for metric in minutes:
        row = page.get_by_role("row").filter(has=page.locator(f"th[title={metric}]"))
        expect(row).to_have_class("stale" if metric in stale else "")
