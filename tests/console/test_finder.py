"""Plants, people and pages are found from every screen by the keyboard."""

from collections.abc import Callable

import psycopg
from playwright.sync_api import expect

from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


def test_plants_people_and_pages_are_found(watched: Watched, database_url: str, user: User) -> None:
    page = watched.page
    administrator = user(role="ORG_ADMIN")
    user(organizations=0, name="Otto Other", joins=administrator.slugs)
    [plant] = add_plants(database_url, administrator.slugs[0], "Winery North")
    administrator.log_in(page)
    expect(page.get_by_role("button", name="Find")).to_be_visible()
    page.keyboard.press("Control+k")
    search = page.get_by_role("dialog").get_by_role("textbox")
    expect(search).to_be_focused()
    watched.check_accessibility()
    search.fill("winery")
    found = page.get_by_role("dialog").get_by_role("link")
    expect(found).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/plants/{plant}/live")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("button", name="Find").click()
    search.fill("otto")
    expect(found).to_have_count(1)
    search.fill("")
    expect(found.filter(has_text="Otto Other")).to_have_count(0)
    search.fill("otto")
    expect(found).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(found.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("People")
    expect(page.get_by_label("Search name or address")).not_to_have_value("")
    expect(page.get_by_role("region", name="Members").get_by_role("row").filter(has_text="Otto Other")).to_have_count(1)

    page.keyboard.press("Control+k")
    search.fill("nothing has this name")
    expect(page.get_by_role("dialog").get_by_text("Nothing was found.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_another_organisation_and_the_pages_of_administrators_are_not_found(
    watched: Watched, database_url: str, user: User
) -> None:
    page = watched.page
    viewer, other = user(), user()
    add_plants(database_url, other.slugs[0], "Winery North")
    viewer.log_in(page)
    expect(page.get_by_role("button", name="Find")).to_be_visible()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="Alerts")).to_be_visible()
    expect(dialog.get_by_role("link", name="People")).to_have_count(0)
    dialog.get_by_role("textbox").fill("winery")
    expect(dialog.get_by_text("Nothing was found.")).to_be_visible()


def test_pages_that_are_not_in_the_menu_are_found_by_role(watched: Watched, user: User) -> None:
    page = watched.page
    administrator = user(role="ORG_ADMIN")
    operator = user(organizations=0, role="OPERATOR", joins=administrator.slugs)
    found = page.get_by_role("dialog").get_by_role("link")
    administrator.log_in(page)
    open_finder(watched)
    search = page.get_by_role("dialog").get_by_role("textbox")
    for text, heading in (
        ("new plant", "New plant"),
        ("import", "Import plants"),
        ("new rule", "New rule"),
        ("my account", "My account"),
    ):
        search.fill(text)
        expect(found).to_have_count(1)
        search.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        open_finder(watched)
    for text in ("new template", "users", "health"):
        search.fill(text)
        expect(page.get_by_role("dialog").get_by_text("Nothing was found.")).to_be_visible()
    page.keyboard.press("Escape")

    watched.allowed.append("status of 401")
    page.context.clear_cookies()
    operator.log_in(page)
    open_finder(watched)
    search.fill("import")
    expect(found).to_have_count(1)
    search.fill("new")
    expect(found).to_have_text(["New rule Page"])


def test_the_pages_about_the_whole_service_are_found_on_each_page(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    member = user(name="Sara Super")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (member.email,))
    found = page.get_by_role("dialog").get_by_role("link")
    search = page.get_by_role("dialog").get_by_role("textbox")
    member.log_in(page)
    for text, heading in (("new template", "New template"), ("templates", "Device templates"), ("cache", "Cache")):
        open_finder(watched)
        search.fill(text)
        expect(found).to_have_count(1)
        search.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.wait_for_url("**/admin/cache")
    open_finder(watched)
    watched.check_accessibility()
    search.fill("plant")
    expect(page.get_by_role("dialog").get_by_text("Nothing was found.")).to_be_visible()
    search.fill("users")
    search.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Users")
    page.wait_for_url("**/admin/users")


def open_finder(watched: Watched) -> None:
    expect(watched.page.get_by_role("button", name="Find")).to_be_visible()
    watched.page.keyboard.press("Control+k")
