"""Plants, people and pages are found from every screen by the keyboard."""

from collections.abc import Callable

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
