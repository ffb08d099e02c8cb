"""The map of the fleet: marks that show the share of troubled plants, the filters of the list, keys, and no other service."""

from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import pytest
from playwright.sync_api import Locator, Page, expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched

PRAGUE, VIENNA = (50.0755, 14.4378), (48.2082, 16.3738)
PIXELS_OF_COLOUR = """(canvas, name) => {
    const read = document.createElement("canvas");
    [read.width, read.height] = [canvas.width, canvas.height + 1];
    const context = read.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, 0, 1);
    context.fillStyle = getComputedStyle(canvas).getPropertyValue(name);
    context.fillRect(0, 0, 1, 1);
    const {data} = context.getImageData(0, 0, read.width, read.height);
    let found = -1;
    for (let at = 0; at < data.length; at += 4) {
        if (data[at] === data[0] && data[at + 1] === data[1] && data[at + 2] === data[2]) found++;
    }
    return found;
}"""


@pytest.fixture
def member(user: Callable[..., ConsoleUser], database_url: str) -> ConsoleUser:
    """Return a member of a fleet with three plants at one place, one at another, and one without coordinates."""
    made = user()
    plants = (
        ("Barn", "ONLINE", PRAGUE),
        ("Barn roof", "ONLINE", PRAGUE),
        ("Barn cellar", "OFFLINE", PRAGUE),
        ("Mill", "UNKNOWN", VIENNA),
        ("Hall", "OFFLINE", (None, None)),
    )
    with psycopg.connect(database_url) as db:
        for name, status, (latitude, longitude) in plants:
            db.execute(
                "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, status, latitude, longitude)"
                " SELECT %s, id, %s, %s, 'GATEWAY', 'TOKEN', %s, %s, %s FROM organization WHERE slug = %s",
                (new_id(), name, f"SN {name}", status, latitude, longitude, made.slugs[0]),
            )
    return made


def open_map(page: Page, member: ConsoleUser) -> Locator:
    """Open the map and return its canvas."""
    member.log_in(page)
    page.get_by_role("button", name="Map", exact=True).click()
    drawn = page.get_by_role("application")
    expect(drawn).to_be_visible()
    return drawn


def click_middle(drawn: Locator) -> None:
    box = drawn.bounding_box()
    assert box is not None
    drawn.click(position={"x": box["width"] / 2, "y": box["height"] / 2})


def test_marks_show_plants_and_the_share_of_the_troubled(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    drawn = open_map(page, member)
    section = page.get_by_role("region", name="Map")
    expect(section.get_by_role("status")).to_have_text(
        "4 plants on the map, 1 offline or with a warning or worse. 1 plant has no coordinates: it is in the list."
    )
    watched.check_accessibility()
    # A third of the ring of three plants is of the troubled one.
    good, bad = (drawn.evaluate(PIXELS_OF_COLOUR, name) for name in ("--good", "--bad"))
    assert 1.4 < good / bad < 2.6, (good, bad)

    page.get_by_label("Status").select_option("Online")
    expect(section.get_by_role("status")).to_have_text(
        "2 plants on the map, 0 offline or with a warning or worse. Plants without coordinates are in the list only."
    )
    assert drawn.evaluate(PIXELS_OF_COLOUR, "--bad") == 0
    click_middle(drawn)
    chosen = page.get_by_role("region", name="Plants here")
    expect(chosen.get_by_role("link")).to_have_text(["Barn", "Barn roof"])
    watched.check_accessibility()
    page.get_by_label("Search name or serial number").fill("roof")
    expect(section.get_by_role("status")).to_contain_text("1 plant on the map")
    expect(section.get_by_role("status")).to_contain_text("the search finds names")
    expect(chosen.get_by_role("link")).to_have_text(["Barn roof"])
    chosen.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Barn roof")
    assert hosts == {page.evaluate("location.host")}


def test_the_keyboard_moves_the_map_and_the_address_keeps_it(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    drawn = open_map(page, member)
    drawn.focus()
    page.keyboard.press("+")
    page.wait_for_url(lambda url: "at=" in url)
    nearer = page.url
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: url != nearer)
    before = page.url
    page.reload()
    expect(drawn).to_be_visible()
    page.wait_for_timeout(1_000)
    assert page.url == before
    page.get_by_role("button", name="Show all").click()
    page.wait_for_url(lambda url: "at=" not in url)
    page.get_by_role("button", name="List", exact=True).click()
    expect(page.get_by_role("link", name="Hall")).to_be_visible()
    expect(drawn).to_have_count(0)


def test_a_changed_state_is_drawn_at_once(watched: Watched, member: ConsoleUser, database_url: str) -> None:
    page = watched.page
    open_map(page, member)
    status = page.get_by_role("region", name="Map").get_by_role("status")
    expect(status).to_contain_text("1 offline or with a warning or worse")
    page.wait_for_timeout(2_000)
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'OFFLINE' WHERE name = 'Mill'")
    expect(status).to_contain_text("2 offline or with a warning or worse", timeout=8_000)


def test_the_map_fits_a_phone_in_the_dark(watched: Watched, member: ConsoleUser) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    open_map(page, member)
    watched.check_accessibility()
    watched.check_width(390)
