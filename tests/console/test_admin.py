"""The administration of the service, for SuperAdmins alone."""

import re
from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


@pytest.fixture
def super_admin(user: User, database_url: str) -> ConsoleUser:
    made = user()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (made.email,))
    return made


def test_an_organisation_is_created_changed_and_deleted(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    super_admin.log_in(page)
    page.get_by_text("Vera Viewer").click()
    page.get_by_role("link", name="Administration").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Organisations")
    watched.check_accessibility()
    slug = f"new-{new_id().hex}"
    page.get_by_role("button", name="New organisation").click()
    dialog = page.get_by_role("dialog", name="New organisation")
    dialog.get_by_label("Name", exact=True).fill("Northern Lights")
    dialog.get_by_label("Slug").fill(super_admin.slugs[0])
    watched.allowed.append("status of 409")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    watched.check_accessibility()
    dialog.get_by_label("Slug").fill(slug)
    dialog.get_by_label("Time zone").fill("Europe/Oslo")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    page.get_by_label("Search name or slug").fill(slug)
    row = page.get_by_role("row").filter(has_text=slug)
    expect(row).to_contain_text("Europe/Oslo")
    expect(page.get_by_role("status")).to_have_text("1 organisation")
    page.get_by_role("button", name="Change Northern Lights").click()
    dialog = page.get_by_role("dialog", name="Change Northern Lights")
    dialog.get_by_label("Name", exact=True).fill("Southern Lights")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Southern Lights")
    row.get_by_role("link", name="Southern Lights").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.go_back()
    page.reload()
    expect(page.get_by_label("Search name or slug")).to_have_value(slug)
    row.get_by_role("link", name="Southern Lights").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.go_back()

    page.get_by_role("button", name="Delete Southern Lights").click()
    confirm = page.get_by_role("dialog", name="Delete Southern Lights?")
    confirm.get_by_label("Type “Southern Lights” to confirm").fill("Southern Lights")
    confirm.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("0 organisations")


def test_the_first_organisation_of_a_new_service_is_created(watched: Watched, user: User, database_url: str) -> None:
    page, first = watched.page, user(organizations=0)
    with psycopg.connect(database_url) as db:
        db.execute("DELETE FROM membership")
        db.execute("DELETE FROM organization")
        db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (first.email,))
    first.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Organisations")
    page.get_by_role("button", name="New organisation").click()
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill("Sun")
    page.get_by_role("dialog").get_by_label("Slug").fill("sun")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Go to the fleet").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_a_user_is_found_disabled_and_enabled(watched: Watched, super_admin: ConsoleUser, user: User) -> None:
    page, other = watched.page, user(organizations=2)
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    super_admin.log_in(page, "/console/admin/users")
    page.get_by_label("Search name or address").fill(other.email)
    row = page.get_by_role("row").filter(has_text=other.email)
    expect(page.get_by_role("status")).to_have_text("1 user")
    # Each value has its heading beside it, and no column is beyond the edge.
    labels = row.get_by_role("cell").evaluate_all("all => all.map((one) => getComputedStyle(one, '::before').content)")
    assert labels[:3] == ['"Role" / ""', '"Organisations" / ""', '"Created" / ""']
    assert page.locator(".table").evaluate("table => table.scrollWidth - table.clientWidth") == 0
    row.get_by_role("button", name="Organisations of Vera Viewer").click()
    dialog = page.get_by_role("dialog", name="Organisations of Vera Viewer")
    expect(dialog.get_by_role("link")).to_have_count(2)
    expect(dialog.get_by_text("Viewer", exact=True)).to_have_count(2)
    watched.check_accessibility()
    dialog.get_by_role("button", name="Close").click()

    row.get_by_role("button", name="Disable").click()
    confirm = page.get_by_role("dialog", name="Disable Vera Viewer?")
    confirm.get_by_label("to confirm").fill(other.email)
    confirm.get_by_role("button", name="Disable").click()
    expect(confirm).to_have_count(0)
    expect(row).to_contain_text("Disabled")
    page.get_by_label("Show").select_option("Disabled")
    expect(row).to_be_visible()
    watched.check_accessibility()
    watched.check_width(390)
    row.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("status")).to_have_text("0 users")

    page.get_by_label("Show").select_option("SuperAdmins")
    page.get_by_label("Search name or address").fill(super_admin.email)
    own = page.get_by_role("row").filter(has_text=super_admin.email)
    expect(own).to_contain_text("SuperAdmin")
    expect(own.get_by_role("button", name="Disable")).to_have_count(0)


def test_the_health_of_the_service_names_what_fails(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    # The service of this test has a database and no broker.
    watched.allowed.append("status of 503")
    super_admin.log_in(page, "/console/admin/health")
    service = page.get_by_role("region", name="Service")
    expect(service.get_by_role("status")).to_contain_text("Does not work")
    expect(service.get_by_role("row").filter(has_text="Broker")).to_contain_text("Cannot be reached")
    expect(service.get_by_role("row").filter(has_text="Schema of the database")).to_contain_text("OK")
    watched.check_accessibility()
    # What was found before says nothing about a service that does not answer.
    watched.allowed.append("ERR_FAILED")
    page.route("**/health/ready", lambda route: route.abort())
    expect(service.get_by_role("alert")).to_be_visible()
    expect(service.get_by_role("row")).to_have_count(0)


def test_a_button_opens_the_menu_of_a_narrow_screen(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    super_admin.log_in(page, "/console/admin/keys")
    menu = page.get_by_role("navigation", name="Main menu")
    opener = page.get_by_role("button", name="Menu", exact=True)
    expect(menu).to_have_count(0)
    opener.press("Enter")
    for link in menu.get_by_role("link").all():
        expect(link).to_be_in_viewport(ratio=1)
    expect(menu.get_by_role("link", name="Encryption keys")).to_have_attribute("aria-current", "page")
    watched.check_accessibility()
    page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Organisations")
    expect(menu).to_have_count(0)
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(menu.get_by_role("link", name="Encryption keys")).to_be_visible()
    expect(opener).to_have_count(0)


def test_the_cache_is_emptied(watched: Watched, super_admin: ConsoleUser) -> None:
    page, slug = watched.page, super_admin.slugs[0]
    super_admin.log_in(page, "/console/admin/cache")
    expect(page.get_by_text("Hit rate")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d+\s%\shits: \d+, misses: \d+$"))).to_be_visible()
    page.get_by_label("Search name or slug").fill(slug)
    row = page.get_by_role("row").filter(has_text=slug)
    row.get_by_role("button", name="Empty the cache of").click()
    confirm = page.get_by_role("dialog", name="Empty the cache of Organisation 1?")
    expect(confirm).to_contain_text("Other organisations are not affected.")
    expect(confirm.get_by_role("button", name="Empty the cache")).to_be_disabled()
    watched.check_accessibility()
    confirm.get_by_label("to confirm").fill("Organisation 1")
    confirm.get_by_role("button", name="Empty the cache").click()
    expect(confirm).to_have_count(0)
    expect(page.get_by_text("The responses to", exact=False).filter(has_text="are deleted")).to_be_visible()
    page.get_by_role("button", name="Empty the whole cache").click()
    confirm = page.get_by_role("dialog", name="Empty the whole cache?")
    watched.check_accessibility()
    confirm.get_by_label("Type “cache” to confirm").fill("cache")
    confirm.get_by_role("button", name="Empty the whole cache").click()
    expect(confirm).to_have_count(0)
    watched.check_accessibility()


def test_an_organisation_gets_a_sandbox_with_a_plant(watched: Watched, super_admin: ConsoleUser) -> None:
    page, slug = watched.page, super_admin.slugs[0]
    super_admin.log_in(page, "/console/admin/sandbox")
    expect(page.get_by_text("The sandbox has no plants.")).to_be_visible()
    page.get_by_label("Search name or slug").fill(slug)
    row = page.get_by_role("row").filter(has_text=slug)
    row.get_by_role("button", name="Access of").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_have_text("The organisation has no access.")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Give access").click()
    client_id = dialog.get_by_label("Client id").input_value()
    secret = dialog.get_by_label("Client secret").input_value()
    assert secret
    watched.check_accessibility()
    dialog.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="New plant").click()
    dialog = page.get_by_role("dialog", name="New plant")
    dialog.get_by_label("Client id").fill(client_id)
    dialog.get_by_label("Id of the plant at the ESM").fill("winery-1")
    dialog.get_by_label("Name", exact=True).fill("Winery")
    dialog.get_by_label("Capacity in kWh").fill("12.5")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Save").click()
    plant = page.get_by_role("row").filter(has_text="winery-1")
    expect(plant).to_contain_text("12.5")
    expect(plant).to_contain_text("Accepts plans")
    page.get_by_role("button", name="Change Winery").click()
    dialog = page.get_by_role("dialog", name="Change Winery")
    dialog.get_by_label("Controller").select_option("Maintenance")
    dialog.get_by_label("Accepts plans").uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(plant).to_contain_text("Maintenance")
    expect(plant).to_contain_text("Refuses plans")
    watched.check_accessibility()
    page.get_by_role("button", name="Delete Winery").click()
    confirm = page.get_by_role("dialog", name="Delete Winery?")
    confirm.get_by_label("to confirm").fill("Winery")
    confirm.get_by_role("button", name="Delete").click()
    expect(plant).to_have_count(0)

    row.get_by_role("button", name="Access of").click()
    dialog = page.get_by_role("dialog")
    # Both end at once what the organisation uses.
    dialog.get_by_role("button", name="Issue new credentials").click()
    confirm = page.get_by_role("dialog", name="Issue new credentials to Organisation 1?")
    expect(confirm).to_contain_text("Its present credentials end at once")
    watched.check_accessibility()
    confirm.get_by_label("to confirm").fill("Organisation 1")
    confirm.get_by_role("button", name="Issue new credentials").click()
    expect(dialog.get_by_label("Client secret")).not_to_have_value(secret)
    dialog.get_by_role("button", name="Close").click()
    row.get_by_role("button", name="Access of").click()
    dialog.get_by_role("button", name="End access").click()
    confirm = page.get_by_role("dialog", name="End the access of Organisation 1?")
    confirm.get_by_role("button", name="Cancel").click()
    expect(dialog.get_by_role("status")).to_have_text("The organisation has access.")
    dialog.get_by_role("button", name="End access").click()
    confirm.get_by_label("to confirm").fill("Organisation 1")
    watched.check_accessibility()
    confirm.get_by_role("button", name="End access").click()
    expect(dialog.get_by_role("status")).to_have_text("The organisation has no access.")


def test_notifications_to_all_users_are_listed(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/me")
    page.get_by_role("row").filter(has_text="E-mail").get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("A test message is on its way.")).to_be_visible()
    page.goto("/console/admin/notifications")
    row = page.get_by_role("row").filter(has_text=super_admin.email)
    expect(row).to_contain_text("E-mail")
    # No process sends it in this test.
    expect(row).to_contain_text("Waits")
    watched.check_accessibility()


def test_stored_secrets_are_encrypted_again(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    super_admin.log_in(page, "/console/admin/keys")
    expect(page.get_by_role("row").nth(1)).to_contain_text("Encrypts new secrets")
    expect(page.get_by_label("Version of the keyring")).to_have_value("1")
    page.get_by_role("button", name="Encrypt again").click()
    expect(page.get_by_role("status")).to_contain_text("Everything is encrypted with this version.")
    watched.check_accessibility()


def test_others_do_not_see_the_administration(watched: Watched, user: User) -> None:
    page = watched.page
    member = user(role="ORG_ADMIN")
    member.log_in(page)
    page.get_by_text("Vera Viewer").click()
    expect(page.get_by_role("link", name="My account")).to_be_visible()
    expect(page.get_by_role("link", name="Administration")).to_have_count(0)
    page.goto("/console/admin/users")
    expect(page.get_by_role("alert")).to_contain_text("SuperAdmin")
    expect(page.get_by_role("row")).to_have_count(0)
