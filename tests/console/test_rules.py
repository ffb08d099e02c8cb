"""Alert rules: written, tried on past values, enabled, changed and deleted."""

import re
from collections.abc import Callable
from uuid import UUID

from playwright.sync_api import Page, expect

from gridfleet.domains.device_templates.decoder import Metric
from support.builders.alerting import ago
from support.clients.console_data import add_history
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
SOC = Metric("soc", "%")
MINUTE = 60
LISTED = 20
"""The most plants of which one can be chosen."""


def add_battery(database_url: str, slug: str, name: str, *, low_at: tuple[int, ...]) -> UUID:
    """Return a plant whose battery has had 80 % for ten hours, and 15 % at some of the minutes before now."""
    frames = {ago(at * MINUTE): [15.0 if at in low_at else 80.0] for at in range(600, 0, -5)}
    return add_history(database_url, slug, name, "BAT1", [SOC], frames)


def add_meter(database_url: str, slug: str, name: str) -> None:
    """Add a plant whose meter has a power in W and one in kW."""
    metrics = [Metric("power", "kW"), Metric("active_power", "W")]
    add_history(database_url, slug, name, "GRID", metrics, {ago(MINUTE): [3.0, 3000.0]})


def fill_rule(page: Page, *, threshold: str, clear: str) -> None:
    """Fill the fields of a new rule about the state of charge."""
    page.get_by_label("Name", exact=True).fill("Low battery")
    page.get_by_label("Metric", exact=True).fill("soc")
    page.get_by_label("Threshold", exact=True).fill(threshold)
    page.get_by_label("Clear threshold").fill(clear)


def test_a_rule_is_tried_saved_changed_and_deleted(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    operator = user(role="OPERATOR")
    add_battery(database_url, operator.slugs[0], "Barn", low_at=(300, 100))
    operator.log_in(page)
    page.get_by_role("link", name="Alert rules").click()
    expect(page.get_by_text("There are no rules.")).to_be_visible()
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Watch one plant").fill("bar")
    # Enter searches; it does not send the form.
    page.keyboard.press("Enter")
    page.get_by_role("button", name=re.compile("^Barn")).click()
    expect(page.get_by_role("link", name="Barn", exact=True)).to_be_visible()
    fill_rule(page, threshold="20", clear="30")
    # That of the values.
    expect(page.get_by_label("Unit", exact=True)).to_have_value("%")
    page.get_by_role("button", name="Try on past values").click()
    expect(page.get_by_role("status")).to_contain_text("would have raised 2 alerts. 2 of 120 values met the condition.")
    expect(page.get_by_role("img", name="Chart of BAT1.soc with the threshold and the alerts")).to_be_visible()
    expect(page.locator(".event.alert")).to_have_count(2)
    expect(page.locator(".level")).to_have_text(["Threshold 20\u00a0%", "Clear threshold 30\u00a0%"])
    expect(page.get_by_role("row").filter(has_text="BAT1.soc")).to_have_count(2)
    watched.check_accessibility()
    page.get_by_label("Threshold", exact=True).fill("5")
    page.get_by_role("button", name="Try on past values").click()
    expect(page.get_by_role("status")).to_contain_text("would have raised no alert")
    expect(page.locator(".event")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    watched.check_accessibility()
    page.set_viewport_size({"width": 1280, "height": 800})

    watched.allowed.append("status of 400")
    page.get_by_label("Threshold", exact=True).fill("40")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("clearThreshold: must not be below threshold")
    page.get_by_label("Threshold", exact=True).fill("20")
    page.keyboard.press("Enter")

    row = page.get_by_role("row").filter(has_text="Low battery")
    expect(row).to_contain_text("soc below 20\u00a0%")
    expect(row).to_contain_text("Barn")
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    page.set_viewport_size({"width": 1280, "height": 800})
    enabled = page.get_by_role("checkbox", name="Low battery is enabled")
    with watched.held("**/alert-rules/*"):
        assert not enabled.evaluate("box => { box.click(); return box.checked; }"), "the choice is shown at once"
        expect(page.get_by_role("status")).to_have_text("Saving …")
        expect(enabled).to_be_disabled()
    expect(page.get_by_role("status")).to_have_text("Saved")
    page.reload()
    expect(enabled).not_to_be_checked()
    page.get_by_role("link", name="Low battery").click()
    expect(page.get_by_label("Unit", exact=True)).to_have_value("%")
    page.get_by_label("Threshold", exact=True).fill("25.5")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("soc below 25.5\u00a0%")
    expect(enabled).not_to_be_checked()

    row.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Low battery?")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type “Low battery” to confirm").fill("Low battery")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There are no rules.")).to_be_visible()


def test_a_rule_for_all_plants_is_tried_by_a_viewer(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    viewer = user()
    for name, low_at in (("Barn", (300, 100)), ("Mill", (200,))):
        add_battery(database_url, viewer.slugs[0], name, low_at=low_at)
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/rules")
    expect(page.get_by_text("There are no rules.")).to_be_visible()
    expect(page.get_by_role("link", name="New rule")).to_have_count(0)
    page.goto(f"/console/o/{viewer.slugs[0]}/rules/new")
    expect(page.get_by_text("Operators and administrators can save rules.")).to_be_visible()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    fill_rule(page, threshold="20", clear="")
    page.get_by_role("button", name="Try on past values").click()
    expect(page.get_by_role("status")).to_contain_text("would have raised 3 alerts")
    plants = page.get_by_label("Plant of the chart")
    expect(plants.get_by_role("option")).to_have_text(["Barn: 2 alerts", "Mill: 1 alert"])
    expect(page.locator(".event")).to_have_count(2)
    plants.select_option("Mill: 1 alert")
    expect(page.locator(".event")).to_have_count(1)
    watched.check_accessibility()


def test_of_a_large_fleet_the_plants_with_the_most_alerts_can_be_chosen(
    watched: Watched, user: User, database_url: str
) -> None:
    """The name of each is read by a request."""
    watched.follow_requests()
    page, viewer = watched.page, user()
    for number in range(LISTED + 2):
        frames = {ago((60 * number + at) * MINUTE): [15.0] for at in ((10, 20) if number == LISTED else (10,))}
        add_history(database_url, viewer.slugs[0], f"Plant {number}", "BAT1", [SOC], frames)
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/rules/new")
    fill_rule(page, threshold="20", clear="")
    page.get_by_label("Cooldown, minutes").fill("1")
    names: list[str] = []
    page.on("request", lambda request: names.append(request.url) if "/api/v1/plants/" in request.url else None)
    page.get_by_role("button", name="Try on past values").click()
    expect(page.get_by_role("status")).to_contain_text(f"would have raised {LISTED + 3} alerts")
    options = page.get_by_label("Plant of the chart").get_by_role("option")
    expect(options).to_have_count(LISTED)
    expect(options.first).to_have_text(f"Plant {LISTED}: 2 alerts")
    expect(page.locator(".event")).to_have_count(2)
    watched.wait_until_loaded()
    assert len(set(names)) == LISTED
    expect(page.get_by_text(f"The {LISTED} plants with the most alerts can be chosen.")).to_be_visible()


def test_another_metric_keeps_the_unit_that_the_form_shows(watched: Watched, user: User, database_url: str) -> None:
    """Otherwise 5 kW would become 5 W, the unit of the other metric's values, after a preview with 5 kW."""
    page = watched.page
    operator = user(role="OPERATOR")
    add_meter(database_url, operator.slugs[0], "Mill")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/rules/new")
    fill_rule(page, threshold="5", clear="")
    page.get_by_label("Metric", exact=True).fill("power")
    page.get_by_label("Unit", exact=True).fill("kW")
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="Low battery")
    expect(row).to_contain_text("power below 5\u00a0kW")
    page.get_by_role("link", name="Low battery").click()
    expect(page.get_by_label("Unit", exact=True)).to_have_value("kW")
    page.get_by_label("Metric", exact=True).fill("active_power")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("active_power below 5\u00a0kW")
