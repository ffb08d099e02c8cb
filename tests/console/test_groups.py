"""Groups: created, filled with plants that a search finds, emptied and deleted."""

import re
from collections.abc import Callable

import psycopg
from playwright.sync_api import expect

from support.clients.console_user import ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched


def test_a_group_is_created_filled_and_deleted(watched: Watched, user: Callable[..., ConsoleUser], database_url: str) -> None:
    page = watched.page
    member = user(role="OPERATOR")
    add_plants(database_url, member.slugs[0], "Barn", "Barn roof", "Mill")
    member.log_in(page)
    page.get_by_role("link", name="Groups", exact=True).click()
    expect(page.get_by_text("There are no groups.")).to_be_visible()
    page.get_by_label("Name of the new group").fill("Barns")
    page.get_by_role("button", name="Create a group").click()
    page.get_by_role("link", name="Barns").click()
    expect(page.get_by_text("The group has no plants.")).to_be_visible()

    page.get_by_label("Search name or serial number").fill("barn")
    page.get_by_role("button", name="Add Barn", exact=True).click()
    page.get_by_role("button", name="Add Barn roof").click()
    expect(page.get_by_role("button", name="Add Mill")).to_have_count(0)
    expect(page.get_by_role("table").get_by_role("link")).to_have_text(["Barn roof", "Barn"])
    watched.check_accessibility()
    page.get_by_role("row").filter(has_text="SN Barn roof").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("table").get_by_role("link")).to_have_text(["Barn"])

    page.get_by_role("navigation").get_by_role("link", name="Groups", exact=True).first.click()
    expect(page.get_by_role("row").filter(has_text="Barns").get_by_role("cell").first).to_have_text("1")
    watched.check_accessibility()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Barns?")
    dialog.get_by_label("Type “Barns” to confirm").fill("Barns")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There are no groups.")).to_be_visible()


def test_a_group_that_another_person_has_deleted_leaves_the_list(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    group_id = add_group(database_url, operator.slugs[0], "North")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/groups")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete North?")
    dialog.get_by_label("Type “North” to confirm").fill("North")
    with psycopg.connect(database_url) as db:
        db.execute("DELETE FROM plant_group WHERE id = %s", (group_id,))
    watched.allowed.append("404")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There are no groups.")).to_be_visible()


def test_the_keyboard_stays_at_the_button_whose_dialog_is_closed(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    add_group(database_url, operator.slugs[0], "North")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/groups")
    delete = page.get_by_role("button", name="Delete")
    for close in ("Escape", "Enter"):
        delete.press("Enter")
        dialog = page.get_by_role("dialog", name="Delete North?")
        dialog.get_by_role("button", name="Cancel").press(close)
        expect(dialog).to_have_count(0)
        expect(delete).to_be_focused()


def test_a_name_with_several_blanks_can_be_typed_as_it_is_shown(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    add_group(database_url, operator.slugs[0], "North  \u00a0roof")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/groups")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type “North roof” to confirm").fill("North roo")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type “North roof” to confirm").fill("North roof")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There are no groups.")).to_be_visible()


def test_the_states_of_the_plants_of_a_group_follow(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, viewer = watched.page, user()
    group_id = add_group(database_url, viewer.slugs[0], "North")
    add_plants(database_url, viewer.slugs[0], "Barn")
    with psycopg.connect(database_url) as db:
        db.execute("INSERT INTO plant_group_member (plant_group_id, plant_id) SELECT %s, id FROM plant", (group_id,))
    page.clock.install()
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/groups/{group_id}")
    row = page.get_by_role("row").filter(has_text="Barn")
    expect(row).to_contain_text("Never seen")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'ONLINE', last_seen_at = now()")
    page.clock.fast_forward(31_000)
    expect(row).to_contain_text("Online")


def test_every_group_can_be_seen(watched: Watched, user: Callable[..., ConsoleUser], database_url: str) -> None:
    page, viewer = watched.page, user()
    for number in range(101):
        add_group(database_url, viewer.slugs[0], f"Group {number}")
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/groups")
    rows = page.get_by_role("table").get_by_role("link")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Next page").click()
    expect(rows).to_have_count(1)
    watched.check_accessibility()
    rows.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"Group \d+"))


def test_a_group_gets_another_name_and_a_description(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, operator = watched.page, user(role="OPERATOR")
    add_group(database_url, operator.slugs[0], "North")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/groups")
    page.get_by_role("button", name="Change North").click()
    dialog = page.get_by_role("dialog", name="Change North")
    dialog.get_by_label("Name").fill("South")
    watched.check_accessibility()
    dialog.get_by_label("Description").fill("Everything below the river")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("row").filter(has_text="South")
    expect(row).to_contain_text("Everything below the river")
    # A change by another person stays, if this one leaves it as it was.
    page.get_by_role("button", name="Change South").click()
    dialog = page.get_by_role("dialog", name="Change South")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant_group SET name = 'West'")
    dialog.get_by_label("Description").fill("")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("West")
    expect(page.get_by_text("Everything below the river")).to_have_count(0)
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)


def test_viewers_change_no_group(watched: Watched, user: Callable[..., ConsoleUser], database_url: str) -> None:
    page, viewer = watched.page, user()
    add_group(database_url, viewer.slugs[0], "North")
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/groups")
    expect(page.get_by_role("link", name="North")).to_be_visible()
    expect(page.get_by_role("button", name="North")).to_have_count(0)
