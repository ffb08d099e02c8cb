"""What holds for every page: policy, caching, accessibility, narrow screens, keyboard."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import expect

from support.clients.console_user import PASSWORD, ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched
from support.servers.served import Served

User = Callable[..., ConsoleUser]
PLANTS = 60
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "report-uri /api/v1/csp-report",
}


def test_every_path_is_the_page_with_its_policy(service: Served) -> None:
    for path in ("/console", "/console/", "/console/o/any/plants/1", "/console/%2e%2e/%2e%2e/pyproject.toml"):
        page = httpx.get(f"{service.url}{path}")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert set(page.headers["content-security-policy"].split("; ")) == POLICY
        assert page.headers["cache-control"] == "no-cache"
        assert '<div id="root">' in page.text


def test_assets_are_kept_for_ever_and_never_confused_with_the_page(service: Served) -> None:
    page = httpx.get(f"{service.url}/console").text
    assets = re.findall(r"/console/assets/[\w.-]+", page)
    assert len(assets) >= 2
    for path in assets:
        asset = httpx.get(f"{service.url}{path}")
        assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert asset.headers["content-type"].startswith(("text/javascript", "text/css"))
    assert httpx.get(f"{service.url}/console/assets/index-of-an-older-release.js").status_code == 404


def test_the_root_leads_to_the_console(service: Served) -> None:
    answer = httpx.get(f"{service.url}/")
    assert (answer.status_code, answer.headers["location"]) == (302, "/console")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_accessible_and_fit(watched: Watched, user: User, colours: str, width: int) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    for path in ("/console/forgot", "/console/login"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        watched.check_accessibility()
    user().log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.get_by_text("Vera Viewer").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    watched.check_accessibility()
    watched.check_width(width)


def test_the_account_is_reached_in_a_low_window_beside_a_long_page(watched: Watched, user: User, database_url: str) -> None:
    """The menu stays where it is while the page is scrolled."""
    page, member = watched.page, user(role="ORG_ADMIN")
    add_plants(database_url, member.slugs[0], *(f"Plant {number}" for number in range(PLANTS)))
    page.set_viewport_size({"width": 1366, "height": 620})
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet")
    expect(page.get_by_role("rowheader").first).to_be_visible()
    page.get_by_text("Vera Viewer").click()
    button = page.get_by_role("button", name="Log out")
    button.hover()
    expect(button).to_be_in_viewport(ratio=1)
    watched.check_accessibility()


def test_the_keyboard_alone_suffices(watched: Watched, user: User) -> None:
    page, member = watched.page, user()
    page.goto("/console/")
    expect(page.get_by_label("E-mail address")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.type(member.email)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()


def test_a_text_can_be_typed_with_pauses(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    add_plants(database_url, member.slugs[0], "Roof east", "Roof west")
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet")
    plants = page.get_by_role("rowheader")
    expect(plants).to_have_count(2)
    page.get_by_label("Search name or serial number").click()
    page.keyboard.type("Roof ")
    expect(page).to_have_url(re.compile("q=Roof$"))
    page.keyboard.type("e")
    expect(plants).to_have_text([re.compile("^Roof east")])
    page.get_by_role("link", name=re.compile("^All")).click()
    expect(page.get_by_label("Search name or serial number")).to_have_value("")


def test_language_and_colours_are_kept(watched: Watched, user: User) -> None:
    page = watched.page
    user().log_in(page)
    page.get_by_text("Vera Viewer").click()
    page.get_by_label("Colours").select_option("dark")
    page.get_by_label("Language").select_option("de")
    expect(page.get_by_role("heading", level=1)).to_have_text("Flotte")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Flotte")
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == ["de", "dark"]


def test_a_long_name_leaves_the_other_columns_on_the_screen(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user(role="ORG_ADMIN")
    add_plants(database_url, member.slugs[0], *(f"{number} {'Photovoltaik' * 8}" for number in range(PLANTS)))
    add_group(database_url, member.slugs[0], "W" * 100)
    member.log_in(page, f"/console/o/{member.slugs[0]}/fleet")
    for path, heading in (("fleet", "Produced today"), ("groups", "Plants")):
        page.goto(f"/console/o/{member.slugs[0]}/{path}")
        expect(page.get_by_role("columnheader", name=heading)).to_be_in_viewport(ratio=1)
        watched.check_accessibility()
    page.goto(f"/console/o/{member.slugs[0]}/fleet")
    # Rows of several lines are all drawn where the page is scrolled to. The text of a row that disappears meanwhile has other
    # white space, so only the number at its start counts.
    seen: set[str] = set()
    for _ in range(50):
        page.evaluate("scrollBy(0, 300)")
        page.wait_for_timeout(100)
        seen.update(text.split()[0] for text in page.get_by_role("rowheader").all_inner_texts())
    assert len(seen) == PLANTS
    expect(page.get_by_role("rowheader").last).to_be_in_viewport()
