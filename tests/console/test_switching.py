"""A page shows nothing of the plant or the organisation that was shown before it."""

from collections.abc import Callable

import psycopg
from playwright.sync_api import Page, expect

from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


def open_credentials(page: Page, plant: str) -> int:
    """Go through the fleet to the credentials of a plant. Returns the position in the browser's history."""
    page.get_by_role("link", name="Fleet", exact=True).first.click()
    page.get_by_role("link", name=plant).click()
    page.locator(".tabs").get_by_role("link", name="Credentials").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(plant)
    return int(page.evaluate("history.length"))


def test_back_to_another_plant_shows_the_actions_of_its_own_state(watched: Watched, user: User, database_url: str) -> None:
    page, admin = watched.page, user(role="ORG_ADMIN")
    active_id, _ = add_plants(database_url, admin.slugs[0], "Active", "Pending")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET lifecycle_status = 'ACTIVE' WHERE id = %s", (active_id,))
    admin.log_in(page)
    active = open_credentials(page, "Active")
    expect(page.get_by_role("button", name="Rotate the secret")).to_be_visible()
    pending = open_credentials(page, "Pending")
    expect(page.get_by_role("button", name="Make credentials and save them")).to_be_visible()
    page.evaluate(f"history.go({active - pending})")
    expect(page.get_by_role("heading", level=1)).to_have_text("Active")
    expect(page.get_by_role("button", name="Rotate the secret")).to_be_visible()
    expect(page.get_by_role("button", name="Make credentials and save them")).to_have_count(0)


def test_back_to_another_plant_closes_the_form_of_the_former(watched: Watched, user: User, database_url: str) -> None:
    """Its fields would be saved at the plant that is shown now."""
    page, operator = watched.page, user(role="OPERATOR")
    add_plants(database_url, operator.slugs[0], "Mill", "Tower")
    operator.log_in(page)
    mill = open_credentials(page, "Mill")
    tower = open_credentials(page, "Tower")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("dialog", name="Change Tower")).to_be_visible()
    page.evaluate(f"history.go({mill - tower})")
    expect(page.locator("h1")).to_have_text("Mill")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_back_to_another_new_plant_shows_no_package_of_the_former(watched: Watched, user: User) -> None:
    """It would be saved under the name of the plant that is shown now."""
    page, admin = watched.page, user(role="ORG_ADMIN")
    admin.log_in(page)
    positions = []
    for name in ("Mill", "Tower"):
        page.get_by_role("link", name="Fleet", exact=True).first.click()
        page.get_by_role("link", name="New plant").click()
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label("Serial number").fill(f"SN {name}")
        page.get_by_label("Login").select_option("Token")
        page.get_by_role("button", name="Register").click()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Make credentials and save them")).to_be_visible()
        positions.append(int(page.evaluate("history.length")))
    with page.expect_download():
        page.get_by_role("button", name="Make credentials and save them").click()
    expect(page.get_by_role("button", name="Save the file again")).to_be_visible()
    page.evaluate(f"history.go({positions[0] - positions[1]})")
    expect(page.get_by_role("button", name="Make credentials and save them")).to_be_visible()
    expect(page.get_by_role("button", name="Save the file again")).to_have_count(0)


def test_another_organisation_never_shows_plants_of_the_former_one(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user(organizations=2)
    for slug, plant in zip(member.slugs, ("Mill", "Tower"), strict=True):
        add_plants(database_url, slug, plant)
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet")
    expect(page.get_by_role("link", name="Mill")).to_be_visible()
    with watched.held("**/api/v1/fleet/plants?*"):
        page.get_by_label("Organisation").select_option(member.slugs[1])
        page.wait_for_url(f"**/o/{member.slugs[1]}/fleet")
        expect(page.get_by_role("link", name="Mill")).to_have_count(0)
    expect(page.get_by_role("link", name="Tower")).to_be_visible()
