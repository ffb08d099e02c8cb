"""The list of the fleet: its filters, the tiles that filter and sort it, and its columns."""

import re
from collections.abc import Callable
from urllib.parse import quote

import psycopg
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from gridfleet.domains.fleet.plants.models import FleetSort
from gridfleet.kernel.ids import new_id
from support.clients.console_data import add_system_templates
from support.clients.console_user import ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
NAMES = ("Barn", "Hall", "Mill", "Shed")
POWERS = (
    # status, lifecycle, PV, battery, grid, load in kW, state of charge in %, produced today in kWh
    ("ONLINE", "ACTIVE", 4.2, -1.1, -1.5, 3.8, 64, 20),
    ("ONLINE", "ACTIVE", 9.5, 2.5, 0, 7, 20, 30),
    ("OFFLINE", "SUSPENDED", None, None, None, None, None, None),
    ("UNKNOWN", "PENDING", None, None, None, None, None, None),
)
INVERTER = "Gridfleet inverter"
ONLINE, OTHERS = '["ONLINE"]', '["UNKNOWN","OFFLINE"]'
"""Statuses as an address has them."""

COLUMNS = (
    *("name", "serialNumber", "status", "lastSeenAt", "createdAt", "alert"),
    *("pv", "load", "grid", "battery", "soc", "energyToday"),
)
"""The sorts of the headings, from left to right."""


@pytest.fixture
def member(user: User, database_url: str) -> ConsoleUser:
    """Return a member of a fleet with two plants that send values, one that is offline, and one that was never seen."""
    add_system_templates(database_url)
    made = user()
    ids = add_plants(database_url, made.slugs[0], *NAMES)
    with psycopg.connect(database_url) as db:
        for plant_id, (status, lifecycle, pv, battery, grid, load, soc, produced) in zip(ids, POWERS, strict=True):
            db.execute(
                "UPDATE plant SET status = %s, lifecycle_status = %s, last_seen_at = now() WHERE id = %s",
                (status, lifecycle, plant_id),
            )
            if status == "ONLINE":
                db.execute(
                    "INSERT INTO plant_power (plant_id, measured_at, pv_kw, battery_kw, grid_kw, load_kw, soc, energy_day,"
                    " produced_kwh, imported_kwh, exported_kwh, charged_kwh, discharged_kwh)"
                    " VALUES (%s, now(), %s, %s, %s, %s, %s, (now() AT TIME ZONE 'UTC')::date, %s, 0, 0, 0, 0)",
                    (plant_id, pv, battery, grid, load, soc, produced),
                )
        group_id = add_group(database_url, made.slugs[0], "North")
        for plant_id in (ids[0], ids[2]):
            db.execute("INSERT INTO plant_group_member (plant_group_id, plant_id) VALUES (%s, %s)", (group_id, plant_id))
        db.execute(
            "UPDATE plant SET template_id = (SELECT id FROM device_template WHERE name = %s) WHERE id = %s", (INVERTER, ids[0])
        )
    return made


def plants(page: Page) -> Locator:
    """Return the links to the plants of the list."""
    return page.get_by_role("region", name="Plants").get_by_role("rowheader").get_by_role("link")


def tile(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name="Totals of the fleet").get_by_role("link", name=re.compile(f"^{name}"))


def sorts(page: Page) -> Locator:
    """Return the buttons that sort the list."""
    return page.get_by_role("columnheader").get_by_role("button")


def test_a_link_with_two_statuses_shows_both(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet?status={quote(OTHERS)}")
    expect(plants(page)).to_have_text(["Mill", "Shed"])
    status = page.get_by_label("Status")
    expect(status.locator("option:checked")).to_have_text("Offline, Never seen")
    status.select_option("Online, Offline")
    expect(plants(page)).to_have_text(["Barn", "Hall", "Mill"])
    page.reload()
    expect(plants(page)).to_have_text(["Barn", "Hall", "Mill"])
    status.select_option("All")
    expect(plants(page)).to_have_count(4)
    expect(page).not_to_have_url(re.compile("status"))


def test_a_revoked_plant_is_not_one_that_is_offline(watched: Watched, member: ConsoleUser, database_url: str) -> None:
    page = watched.page
    with psycopg.connect(database_url) as db:
        db.execute(
            "UPDATE plant SET status = 'OFFLINE', lifecycle_status = 'DECOMMISSIONED' WHERE name = 'Shed' AND organization_id ="
            " (SELECT id FROM organization WHERE slug = %s)",
            (member.slugs[0],),
        )
    member.log_in(page)
    expect(page.get_by_role("row").filter(has_text="Shed")).to_contain_text("Decommissioned")
    expect(tile(page, "Offline")).to_have_text("Offline1")
    tile(page, "Offline").click()
    expect(plants(page)).to_have_text(["Mill"])
    expect(tile(page, "Offline")).to_have_attribute("aria-current", "page")
    expect(page.get_by_text("More filters: 1 set")).to_be_visible()


def test_rarer_filters_are_counted_and_cleared(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page)
    expect(page.get_by_label("Group")).to_have_count(0)
    more = page.get_by_text("More filters")
    expect(more).to_have_text("More filters")
    more.click()
    watched.check_accessibility()
    page.get_by_label("Group").select_option("North")
    expect(plants(page)).to_have_text(["Barn", "Mill"])
    expect(more).to_have_text("More filters: 1 set")
    page.get_by_role("checkbox", name="Suspended").check()
    expect(plants(page)).to_have_text(["Mill"])
    page.get_by_role("checkbox", name="Active").check()
    expect(plants(page)).to_have_text(["Barn", "Mill"])
    page.get_by_label("Template").select_option(INVERTER)
    expect(plants(page)).to_have_text(["Barn"])

    page.reload()
    expect(plants(page)).to_have_text(["Barn"])
    expect(more).to_have_text("More filters: 3 set")
    more.click()
    expect(page.get_by_label("Group").locator("option:checked")).to_have_text("North")
    expect(page.get_by_role("checkbox", name="Suspended")).to_be_checked()
    page.get_by_label("Messages").select_option("Refused in 24 hours")
    expect(page.get_by_text("No plant matches these filters.")).to_be_visible()
    page.get_by_label("Status").select_option("Online")
    page.get_by_role("button", name="Clear these filters").click()
    expect(plants(page)).to_have_text(["Barn", "Hall"])
    expect(more).to_have_text("More filters")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Group")).to_have_count(0)
    expect(more).to_be_focused()


def test_a_press_elsewhere_closes_what_is_open(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page)
    opened = page.locator("details[open]")
    page.get_by_text("More filters").click()
    page.get_by_role("checkbox", name="Active").check()
    expect(opened).to_have_count(1)
    page.locator("details.account > summary").click()
    expect(page.get_by_label("Language")).to_be_visible()
    expect(opened).to_have_count(1)
    page.get_by_role("heading", level=1).click()
    expect(opened).to_have_count(0)


def test_a_link_to_a_group_that_was_deleted_shows_that_it_filters(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet?groupId={new_id()}&templateId=x")
    expect(page.get_by_text("No plant matches these filters.")).to_be_visible()
    page.get_by_text("More filters: 1 set").click()
    expect(page.get_by_label("Group").locator("option:checked")).to_have_text("Not found")
    page.get_by_label("Group").select_option("All")
    expect(plants(page)).to_have_count(4)


def test_the_map_has_every_filter(watched: Watched, member: ConsoleUser, database_url: str) -> None:
    page = watched.page
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET latitude = 50, longitude = 14")
    member.log_in(page)
    page.get_by_role("button", name="Map", exact=True).click()
    shown = page.get_by_role("region", name="Map").get_by_role("status")
    expect(shown).to_contain_text("4 plants on the map")
    page.get_by_text("More filters").click()
    page.get_by_role("checkbox", name="Active").check()
    expect(shown).to_contain_text("2 plants on the map")
    page.get_by_label("Group").select_option("North")
    expect(shown).to_contain_text("1 plant on the map")
    page.get_by_role("button", name="List", exact=True).click()
    expect(plants(page)).to_have_text(["Barn"])


def test_a_tile_lists_the_highest_first(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    address = f"/console/o/{member.slugs[0]}/fleet?status={quote(ONLINE)}&view=map"
    member.log_in(page, address)
    for name in ("PV", "Load", "Grid", "Battery", "Stored", "Produced today"):
        tile(page, name).click()
        expect(plants(page)).to_have_text(["Barn", "Hall"] if name == "Stored" else ["Hall", "Barn"])
        expect(tile(page, name)).to_have_attribute("aria-current", re.compile("page|true"))
        expect(tile(page, "Online")).to_have_attribute("aria-current", re.compile("page|true"))
        expect(page.locator("[aria-sort=descending]")).to_have_count(1)
        if name == "Stored":
            watched.check_accessibility()
        page.go_back()
    watched.check_accessibility()


def test_a_row_shows_every_power_with_a_word_for_its_direction(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page)
    row = page.get_by_role("row").filter(has_text="SN Barn")
    expect(row.get_by_role("cell", name="PV 4.20 kW Load 3.80 kW", exact=True)).to_be_visible()
    expect(row.get_by_role("cell", name="Grid 1.50 kW exporting Battery 1.10 kW discharging", exact=True)).to_be_visible()
    expect(row.get_by_role("cell", name="State of charge 64 % Produced today 20.0 kWh", exact=True)).to_be_visible()


def test_the_list_has_every_order_of_the_api(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    member.log_in(page)
    expect(plants(page)).to_have_count(4)
    assert set(COLUMNS) == {sort.value for sort in FleetSort}
    for number, sort in enumerate(COLUMNS):
        sorts(page).nth(number).click()
        expect(page).to_have_url(re.compile(rf"sort={sort}\b"))
        expect(page.locator("[aria-sort]")).to_have_count(1)


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_list_fits_a_small_window(watched: Watched, user: User, database_url: str, language: str) -> None:
    """Every column has its widest content."""
    page, admin = watched.page, user(role="ORG_ADMIN")
    [plant_id] = add_plants(database_url, admin.slugs[0], "Barn of the cooperative in the northern district")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'ONLINE', last_seen_at = now() - interval '59 minutes'")
        db.execute(
            "INSERT INTO plant_power (plant_id, measured_at, pv_kw, battery_kw, grid_kw, load_kw, soc, energy_day,"
            " produced_kwh, imported_kwh, exported_kwh, charged_kwh, discharged_kwh)"
            " VALUES (%s, now(), -8.88, -888, -888, 888, 100, (now() AT TIME ZONE 'UTC')::date, 888, 0, 0, 0, 0)",
            (plant_id,),
        )
        for severity in ("WARNING", "EMERGENCY"):
            db.execute(
                "INSERT INTO alert (id, organization_id, plant_id, severity, message, metric, value, measured_at)"
                " SELECT %s, organization_id, id, %s, 'Low', 'soc', 5, now() FROM plant WHERE id = %s",
                (new_id(), severity, plant_id),
            )
        db.execute(
            "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
            " VALUES (%s, %s, now(), 'v1/plants/x/telemetry', 'MALFORMED', 'the message is not JSON', 2)",
            (new_id(), plant_id),
        )
    page.add_init_script(f"localStorage.setItem('gridfleet-language', '{language}')")
    page.goto("/console/login")
    page.locator("input[type=email]").fill(admin.email)
    page.locator("input[type=password]").fill("Correct horse 1!")
    page.locator("button[type=submit]").click()
    expect(page.get_by_role("rowheader")).to_have_count(1)
    table = page.locator(".table")
    for order in ("name", "serialNumber", "createdAt", "load", "battery", "energyToday"):
        page.goto(f"/console/o/{admin.slugs[0]}/fleet?sort={order}&order=desc")
        expect(page.get_by_role("rowheader")).to_have_count(1)
        assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0, order
    watched.check_width(1280)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/console/o/{admin.slugs[0]}/fleet?sort=battery")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    row.scroll_into_view_if_needed()
    texts = row.get_by_role("cell").filter(visible=True)
    shown = {
        "en": ("Online", "59 min", "Emergency", "PV", "Grid", "charge 100"),
        "de": ("Online", "vor 59", "Notfall", "PV", "Netz", "Ladezustand 100"),
    }
    for text in shown[language]:
        expect(texts.filter(has_text=text)).to_be_in_viewport(ratio=1)
    assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0
    watched.check_width(390)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_filters_fit_a_phone(watched: Watched, member: ConsoleUser, colours: str) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    member.log_in(page)
    page.get_by_text("More filters").click()
    expect(page.get_by_label("Group")).to_be_visible()
    watched.check_width(390)
    watched.check_accessibility()


def test_the_fleet_names_suspended_plants_and_unregistered_devices(
    watched: Watched, member: ConsoleUser, database_url: str
) -> None:
    page = watched.page
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO unregistered_device (plant_id, organization_id, external_id, first_seen_at, last_seen_at, count)"
            " SELECT id, organization_id, 'BAT1', now(), now(), 3 FROM plant WHERE name = 'Mill'"
        )
    member.log_in(page)
    expect(page.get_by_role("row").filter(has_text="Mill")).to_contain_text("Suspended")
    expect(page.get_by_role("row").filter(has_text="Barn")).not_to_contain_text("Suspended")
    expect(page.get_by_text("The values of one device are not stored")).to_be_visible()
    watched.check_accessibility()
    page.get_by_role("link", name="BAT1 of Mill").click()
    expect(page.get_by_text("SN Mill")).to_be_visible()
    expect(page.locator(".facts").get_by_text("Suspended")).to_be_visible()
    expect(page).to_have_url(re.compile("/devices$"))
    page.locator(".hint").filter(has_text="until it is reactivated").get_by_role("link", name="Credentials").click()
    expect(page.get_by_text("Administrators can change credentials.")).to_be_visible()
    watched.check_accessibility()


def test_a_plant_that_moves_to_a_further_page_has_one_row(watched: Watched, user: User, database_url: str) -> None:
    page, viewer = watched.page, user()
    ids = add_plants(database_url, viewer.slugs[0], *(f"Plant {number:03}" for number in range(300)))
    with psycopg.connect(database_url) as db:
        db.execute(
            "UPDATE plant SET last_seen_at = '2026-01-01'::timestamptz + number * interval '1 minute'"
            " FROM unnest(%s::uuid[]) WITH ORDINALITY AS one (id, number) WHERE plant.id = one.id",
            (ids,),
        )
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/fleet?sort=lastSeenAt")
    rows = page.get_by_role("region", name="Plants").get_by_role("rowheader")
    expect(rows.filter(has_text="Plant 000")).to_have_count(1)
    with psycopg.connect(database_url) as db:
        # Its event may come later than the request for the next page.
        db.execute("SET session_replication_role = replica")
        db.execute("UPDATE plant SET last_seen_at = '2026-01-01 03:21:30Z' WHERE id = %s", (ids[198],))
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(rows.filter(has_text="Plant 201")).to_have_count(1)
    page.evaluate("scrollBy(0, -300)")
    expect(rows.filter(has_text="Plant 196")).to_have_count(1)
    expect(rows.filter(has_text="Plant 198")).to_have_count(1)
    page.evaluate("scrollTo(0, 0)")
    expect(rows.filter(has_text="Plant 000")).to_have_count(1)
    expect(rows.filter(has_text="Plant 198")).to_have_count(0)


def test_a_further_page_that_is_refused_is_not_asked_for_without_a_pause(
    watched: Watched, user: User, database_url: str
) -> None:
    page, viewer = watched.page, user()
    add_plants(database_url, viewer.slugs[0], *(f"Plant {number:03}" for number in range(300)))
    watched.allowed.append("status of 403")
    viewer.log_in(page)
    rows = page.get_by_role("region", name="Plants").get_by_role("rowheader")
    expect(rows.filter(has_text="Plant 000")).to_have_count(1)
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=403, json={"code": "FORBIDDEN", "message": "Not now.", "details": []})

    page.route("**/fleet/plants?*cursor=*", refuse)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_text("Not now.")).to_have_count(1)
    page.wait_for_timeout(2_000)
    assert len(asked) < 4  # the alert moves the list, once
    page.unroute("**/fleet/plants?*cursor=*")
    page.evaluate("scrollTo(0, 0)")
    expect(rows.filter(has_text="Plant 000")).to_have_count(1)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(rows.filter(has_text="Plant 201")).to_have_count(1)
