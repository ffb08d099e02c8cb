"""Plants of the fleet are selected, added to groups, and exported as a CSV file."""

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Locator, Page, expect

from support.clients.console_user import ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
HEADINGS = [
    *("id", "name", "serialNumber", "status", "lifecycleStatus", "lastSeenAt", "worstAlert", "openAlerts"),
    *("pvKw", "batteryKw", "gridKw", "loadKw", "fresh", "soc", "producedTodayKwh"),
]
READING = "**/fleet/plants*limit=500*"
"""Requests for plants that the list has not loaded."""


def members(database_url: str, group: str) -> list[str]:
    """Return the names of the plants of the groups with this name."""
    with psycopg.connect(database_url) as db:
        rows = db.execute(
            "SELECT p.name FROM plant p JOIN plant_group_member m ON m.plant_id = p.id"
            " JOIN plant_group g ON g.id = m.plant_group_id WHERE g.name = %s ORDER BY p.name",
            (group,),
        ).fetchall()
    return [name for (name,) in rows]


def exported(page: Page, folder: Path) -> list[dict[str, str]]:
    """Export the list, and return the rows of the file."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    assert download.value.suggested_filename == "plants.csv"
    file = folder / "plants.csv"
    download.value.save_as(file)
    assert file.read_bytes().startswith(BOM_UTF8)  # without it, spreadsheets garble the names
    with file.open(encoding="utf-8-sig", newline="") as text:
        rows = csv.DictReader(text)
        assert rows.fieldnames == HEADINGS
        return list(rows)


def box(page: Page, name: str) -> Locator:
    return page.get_by_role("checkbox", name=name, exact=True)


def test_selected_plants_are_added_to_a_new_group(watched: Watched, user: User, database_url: str) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    add_plants(database_url, operator.slugs[0], "Barn", "Barn roof", "Mill")
    operator.log_in(page)
    adding = page.get_by_role("button", name="Add to a group")
    expect(box(page, "Select Barn")).to_be_visible()
    expect(adding).to_have_count(0)
    box(page, "Select Barn").press("Space")
    box(page, "Select Mill").check()
    expect(page.get_by_text("2 plants selected")).to_be_visible()
    watched.check_accessibility()

    adding.press("Enter")
    dialog = page.get_by_role("dialog", name="Add 2 plants to a group")
    dialog.get_by_label("Name of the new group").fill("North")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(adding).to_be_focused()
    expect(page.get_by_text("2 plants were added to North")).to_be_visible()
    assert members(database_url, "North") == ["Barn", "Mill"]

    box(page, "Select Mill").uncheck()
    box(page, "Select Barn roof").check()
    expect(page.get_by_text("were added to")).to_have_count(0)
    adding.click()
    page.get_by_role("dialog").get_by_role("combobox").select_option("North")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("link", name="North").click()
    expect(page.get_by_role("table").get_by_role("link")).to_have_text(["Mill", "Barn roof", "Barn"])


def test_a_group_that_was_deleted_is_not_replaced_by_one_without_a_name(
    watched: Watched, user: User, database_url: str
) -> None:
    watched.follow_requests()
    page, operator = watched.page, user(role="OPERATOR")
    watched.allowed.append("status of 404")
    add_plants(database_url, operator.slugs[0], "Barn")
    group_id = add_group(database_url, operator.slugs[0], "North")
    operator.log_in(page)
    box(page, "Select Barn").check()
    page.get_by_role("button", name="Add to a group").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox").select_option("North")
    with psycopg.connect(database_url) as db:
        db.execute("DELETE FROM plant_group WHERE id = %s", (group_id,))
    adding = dialog.get_by_role("button", name="Add", exact=True)
    adding.click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    watched.wait_until_loaded()
    adding.click()
    expect(dialog.get_by_label("Name of the new group")).to_be_focused()
    dialog.get_by_label("Name of the new group").fill("South")
    adding.click()
    expect(page.get_by_text("1 plant was added to South")).to_be_visible()
    assert (members(database_url, "South"), members(database_url, "null")) == (["Barn"], [])


def test_the_selection_stays_while_the_list_changes_and_ends_with_its_filters(
    watched: Watched, user: User, database_url: str
) -> None:
    page, viewer = watched.page, user()
    add_plants(database_url, viewer.slugs[0], "Barn", "Mill")
    viewer.log_in(page)
    box(page, "Select Mill").check()
    page.get_by_role("button", name="Plant", exact=True).click()
    expect(page).to_have_url(re.compile("order=desc"))
    expect(box(page, "Select Mill")).to_be_checked()
    expect(box(page, "Select Barn")).not_to_be_checked()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET name = 'Old mill' WHERE name = 'Mill'")
    expect(box(page, "Select Old mill")).to_be_checked()
    page.get_by_label("Search name or serial number").fill("mill")
    expect(page.get_by_role("table").get_by_role("rowheader")).to_have_count(1)
    expect(box(page, "Select Old mill")).not_to_be_checked()
    expect(page.get_by_text("1 plant", exact=True)).to_be_visible()

    box(page, "Select all").click()
    expect(page.get_by_text("1 plant selected")).to_be_visible()
    page.get_by_role("button", name="Clear").press("Enter")
    expect(box(page, "Select Old mill")).not_to_be_checked()
    expect(page.get_by_role("button", name="Export as CSV")).to_be_focused()


def test_a_viewer_exports_a_filtered_list_but_changes_no_group(
    watched: Watched, user: User, database_url: str, tmp_path: Path
) -> None:
    page, viewer = watched.page, user()
    name = 'Süd, "1"'
    ids = add_plants(database_url, viewer.slugs[0], name, "=1+1", "Mill")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'ONLINE', last_seen_at = '2026-03-29T01:30:00.25Z' WHERE name = %s", (name,))
        db.execute("UPDATE plant SET status = 'OFFLINE' WHERE name = '=1+1'")
    viewer.log_in(page)
    expect(box(page, "Select Mill")).to_be_visible()
    assert {row["name"] for row in exported(page, tmp_path)} == {name, "'=1+1", "Mill"}
    page.get_by_label("Status").select_option("Online")
    expect(page.get_by_text("1 plant", exact=True)).to_be_visible()
    [row] = exported(page, tmp_path)
    known = {"id": ids[0], "name": name, "serialNumber": f"SN {name}", "status": "ONLINE", "lifecycleStatus": "PENDING"}
    assert {heading: text for heading, text in row.items() if text} == {
        **known,
        "lastSeenAt": "2026-03-29T01:30:00.250Z",
        "openAlerts": "0",
    }

    page.get_by_role("link", name=re.compile("^All")).click()
    box(page, "Select Mill").check()
    expect(page.get_by_text("1 plant selected")).to_be_visible()
    expect(page.get_by_role("button", name="Add to a group")).to_have_count(0)
    assert [row["name"] for row in exported(page, tmp_path)] == ["Mill"]


def test_all_plants_are_selected_also_those_that_are_not_loaded(
    watched: Watched, user: User, database_url: str, tmp_path: Path
) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    names = [f"Plant {number:04}" for number in range(1_200)]
    add_plants(database_url, operator.slugs[0], *names, "Mill")
    add_group(database_url, operator.slugs[0], "Plants")
    operator.log_in(page)
    page.get_by_label("Search name or serial number").fill("plant")
    expect(page.get_by_text("1,200 plants", exact=True)).to_be_visible()
    watched.allowed.append("net::ERR_FAILED")
    page.route(READING, lambda route: route.abort())
    box(page, "Select all").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.unroute(READING)
    with watched.held(READING):
        box(page, "Select all").click()
        expect(box(page, "Select all")).to_be_disabled()
    expect(page.get_by_text("1,200 plants selected")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(box(page, "Select all")).to_be_checked()
    assert page.get_by_role("row").count() < 100
    box(page, "Select Plant 0002").uncheck()
    expect(page.get_by_text("1,199 plants selected")).to_be_visible()
    assert [row["name"] for row in exported(page, tmp_path)] == [name for name in names if name != "Plant 0002"]
    page.get_by_role("button", name="Add to a group").click()
    page.get_by_role("dialog").get_by_role("combobox").select_option("Plants")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("1,199 plants were added to Plants")).to_be_visible()
    assert len(members(database_url, "Plants")) == 1_199


def test_a_deleted_plant_is_left_out_and_no_second_group_created(watched: Watched, user: User, database_url: str) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    [plant_id, _] = add_plants(database_url, operator.slugs[0], "Mill", "Barn")
    for number in range(101):
        add_group(database_url, operator.slugs[0], f"Group {number}")
    operator.log_in(page)
    box(page, "Select Mill").check()
    box(page, "Select Barn").check()
    page.get_by_role("button", name="Add to a group").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("option")).to_have_count(102)
    dialog.get_by_label("Name of the new group").fill("North")
    with psycopg.connect(database_url) as db:
        db.execute("DELETE FROM plant WHERE id = %s", (plant_id,))
    watched.allowed.append("404")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("One of the plants does not exist.")
    expect(dialog.get_by_role("combobox").locator("option:checked")).to_have_text("North")
    expect(dialog.get_by_role("heading")).to_have_text("Add 1 plant to a group")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog).to_have_count(0)
    assert members(database_url, "North") == ["Barn"]
    with psycopg.connect(database_url) as db:
        assert db.execute("SELECT count(*) FROM plant_group WHERE name = 'North'").fetchone() == (1,)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_selection_fits_a_phone(watched: Watched, user: User, database_url: str, colours: str) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    add_plants(database_url, operator.slugs[0], *(f"Plant {number}" for number in range(60)))
    operator.log_in(page)
    box(page, "Select Plant 1").check()
    watched.check_width(390)
    watched.check_accessibility()
    page.mouse.wheel(0, 2_000)
    expect(page.get_by_role("button", name="Add to a group")).to_be_in_viewport()
    page.get_by_role("button", name="Add to a group").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    watched.check_accessibility()
    watched.check_width(390)
