"""The screens of a plant, with a simulated fleet at the whole service."""

import csv
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from support.clients.fleet_under_test import wait_for
from support.clients.ledger_comparison import Ledger
from support.clients.watched_page import Watched, open_context
from support.servers.running_stack import RunningStack

SLUG = "console-plants"


@pytest.fixture(scope="module")
def plants(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Simulate two plants until a refused message of each is stored, and return their lines of the ledger."""
    folder = tmp_path_factory.mktemp("simulated")
    ledger = folder / "ledger.jsonl"
    options = ("--faults", "bad-signature", "--organization", SLUG, "--plants", "2", "--interval", "0.5", "--history", "0.02")
    command = [sys.executable, "-m", "gridfleet", "simulate", *options, "--state", str(folder), "--ledger", str(ledger)]
    running = subprocess.Popen(command, env=stack.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        organization = next(line.split()[-1] for line in running.stdout if line.startswith("organisation "))
        with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=30) as http:
            login = http.post("/auth/login", json={"email": stack.admin_email, "password": stack.admin_password}).json()
            http.headers.update({"authorization": f"Bearer {login['access_token']}", "x-org-id": organization})
            for plant in http.get("/plants").json()["data"]:
                refused = f"/plants/{plant['id']}/refused-messages"
                wait_for(lambda refused=refused: http.get(refused).json()["data"] != [], 60)
    finally:
        running.terminate()
        running.communicate(timeout=60)
    assert running.returncode == 0
    return Ledger.read(ledger).lines["plant"]


@pytest.fixture
def watched(browser: Browser, stack: RunningStack, plants: list[dict[str, str]]) -> Iterator[Watched]:
    context = open_context(browser, stack.base_url, height=900)
    made = Watched(context.new_page())
    page = made.page
    page.goto(f"/console/o/{SLUG}/fleet")
    page.get_by_label("E-mail address").fill(stack.admin_email)
    page.get_by_label("Password").fill(stack.admin_password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    yield made
    made.check()
    context.close()


def open_plant(page: Page, plants: list[dict[str, str]]) -> None:
    """Open the first simulated plant from the list."""
    row = page.get_by_role("row").filter(has_text=plants[0]["serialNumber"])
    row.get_by_role("rowheader").get_by_role("link").click()
    expect(page.get_by_text(plants[0]["serialNumber"])).to_be_visible()


def test_the_energy_flow_says_where_energy_goes(watched: Watched, plants: list[dict[str, str]]) -> None:
    page = watched.page
    open_plant(page, plants)
    flow = page.locator("section").filter(has=page.get_by_role("heading", name="Energy flow"))
    shown = flow.get_by_role("img").get_attribute("aria-label")
    assert shown is not None
    power = r"[\d.]+\s[kM]?W"
    assert re.search(f"PV {power}, Grid {power}( importing| exporting)?, Load {power}, Battery", shown), shown
    assert re.search(r"State of charge \d+\s%$", shown), shown
    expect(flow.locator("time")).to_contain_text(re.compile("ago|now"))
    watched.check_accessibility()


def test_newest_values_have_unit_and_age(watched: Watched, plants: list[dict[str, str]]) -> None:
    page = watched.page
    open_plant(page, plants)
    battery = page.locator("section").filter(has=page.get_by_role("heading", name="BAT1"))
    charge = battery.get_by_role("row").filter(has_text=re.compile(r"^State of charge"))
    expect(charge).to_contain_text("%")
    # Once for all values of the same snapshot.
    expect(battery.locator("time")).to_have_count(1)
    expect(battery.get_by_role("heading").locator("time")).to_contain_text(re.compile("ago|now"))
    expect(battery.get_by_role("heading")).to_have_text(re.compile("^Battery BAT1 (?!BAT1)"))
    expect(battery.get_by_role("row").filter(has_text=re.compile(r"^Fault"))).to_contain_text("no")
    watched.check_accessibility()


def test_a_chart_is_zoomed_by_drawing_and_shared_by_its_link(watched: Watched, plants: list[dict[str, str]]) -> None:
    page = watched.page
    open_plant(page, plants)
    page.get_by_role("link", name="History").click()
    page.get_by_role("button", name="1 hour").click()
    expect(page).to_have_url(re.compile("last=1h"))
    power = page.get_by_role("row").filter(has_text="Consumption of the site")
    shown = power.inner_text()
    assert re.search(r"\d", shown)
    summary = page.locator("figcaption table").inner_text()
    assert re.search("charging|importing|exporting", summary), summary
    assert "PV inverter PV1" in summary, summary
    # A word says what a minus means.
    assert not re.search(r"[-\u2212][\d.]+\s+kW(?!\s+(exporting|discharging))", summary), summary
    watched.check_accessibility()

    page.get_by_label("Averages of").select_option("5 minutes")
    expect(page).to_have_url(re.compile("bucket="))
    expect(page.get_by_text("Averages of 5 minutes;")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export as CSV").click()
    rows = list(csv.DictReader(saved.value.path().read_text("utf-8-sig").splitlines()))
    assert 10 <= len(rows) <= 14
    assert any(float(row["load_power (kW) average"] or 0) > 0 for row in rows)
    page.get_by_label("Averages of").select_option("Automatic")

    box = page.get_by_role("img", name=re.compile("Chart of")).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 100, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile("from=.*to="))
    zoomed = page.url
    page.get_by_text(re.compile(r"^\d metrics$")).click()
    page.get_by_role("checkbox", name=re.compile("^State of charge of the site")).check()
    expect(page.get_by_role("row").filter(has_text="State of charge of the site")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(zoomed)
    page.reload()
    expect(page.get_by_role("row").filter(has_text="Consumption of the site")).to_be_visible()


def test_an_unknown_plant_says_so(watched: Watched) -> None:
    watched.allowed.append("status of 404")
    watched.page.goto(f"/console/o/{SLUG}/plants/0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d/live")
    expect(watched.page.get_by_role("alert")).to_contain_text("There is no such plant.")


def test_a_refused_message_says_what_to_do(watched: Watched, stack: RunningStack, plants: list[dict[str, str]]) -> None:
    page = watched.page
    open_plant(page, plants)
    page.get_by_role("link", name="Messages", exact=True).click()
    refusal = page.get_by_role("article").filter(has_text="SIGNATURE_INVALID")
    expect(refusal).to_have_count(1)
    expect(refusal).to_contain_text("The signature is wrong")
    expect(refusal).to_contain_text("Compare the secret")
    watched.check_accessibility()


def test_the_fleet_is_searched_sorted_and_filtered(watched: Watched, plants: list[dict[str, str]]) -> None:
    page = watched.page
    rows = page.get_by_role("table").get_by_role("rowheader")
    expect(rows).to_have_count(len(plants))
    page.get_by_label("Search name or serial number").fill(plants[1]["serialNumber"])
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile("q="))
    page.get_by_label("Search name or serial number").fill("nothing like this")
    expect(page.get_by_text("No plant matches these filters.")).to_be_visible()
    page.get_by_role("link", name=re.compile("^All")).click()
    expect(rows).to_have_count(len(plants))
    page.get_by_role("button", name="State of charge").click()
    expect(page.get_by_role("columnheader", name="State of charge")).to_have_attribute("aria-sort", "ascending")
    expect(page).to_have_url(re.compile("sort=soc"))
    page.get_by_role("link", name=re.compile("^Never seen")).click()
    expect(page.get_by_text("No plant matches these filters.")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("link", name=re.compile("^All")).click()
    expect(rows).to_have_count(len(plants))
    watched.check_width(390)
    watched.check_accessibility()


def test_the_energy_of_a_day_is_shown(watched: Watched, plants: list[dict[str, str]]) -> None:
    page = watched.page
    open_plant(page, plants)
    page.get_by_role("link", name="Energy").click()
    produced = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Produced", exact=True))
    expect(produced).to_contain_text("Wh")
    watched.check_accessibility()
    page.get_by_role("button", name="Earlier").click()
    expect(page).to_have_url(re.compile(r"date=\d{4}-\d\d-\d\d"))
    expect(produced).to_contain_text("–")
    page.get_by_role("button", name="Month").click()
    expect(page).to_have_url(re.compile("period=month"))
