"""What happened at a plant: its alerts and changes."""

import re
from collections.abc import Callable
from uuid import UUID

from playwright.sync_api import expect

from gridfleet.domains.device_templates.decoder import Metric
from support.builders.alerting import ago
from support.clients.console_data import add_alert, add_history
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
SOC = Metric("soc", "%")


def add_battery(database_url: str, slug: str, name: str) -> UUID:
    """Return a plant whose battery has 80 %, with an alert about 5 % of half an hour ago."""
    frames = {ago(60 * minute): [5.0 if minute == 30 else 80.0] for minute in range(180, 0, -1)}
    plant_id = add_history(database_url, slug, name, "BAT1", [SOC], frames)
    add_alert(database_url, plant_id, f"{name} is low")
    return plant_id


def test_a_plant_has_its_own_alerts_and_changes(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    administrator = user(role="ORG_ADMIN")
    slug = administrator.slugs[0]
    plant_id = add_battery(database_url, slug, "Barn")
    add_battery(database_url, slug, "Mill")
    administrator.log_in(page, f"/console/o/{slug}/plants/{plant_id}")
    tabs = page.get_by_role("navigation", name="Screens of the plant")
    tabs.get_by_role("link", name="Alerts").click()
    expect(page.get_by_role("row").filter(has_text="is low")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Plant", exact=True)).to_have_count(0)
    watched.check_accessibility()
    page.get_by_role("checkbox", name="Choose: Barn is low").check()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("row").filter(has_text="Barn is low")).to_contain_text("Acknowledged Vera Viewer")
    page.get_by_label("Status").select_option("Resolved")
    expect(page.get_by_text("No alert matches these filters.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"plants/.*/alerts\?status="))

    tabs.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("row").filter(has_text="alert.acknowledged")).to_contain_text("Vera Viewer")
    watched.check_accessibility()
    page.get_by_label("What was changed").select_option("Devices")
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_operators_see_no_changes_of_a_plant(watched: Watched, user: User, database_url: str) -> None:
    operator = user(role="OPERATOR")
    plant_id = add_battery(database_url, operator.slugs[0], "Barn")
    operator.log_in(watched.page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}")
    tabs = watched.page.get_by_role("navigation", name="Screens of the plant")
    expect(tabs.get_by_role("link", name="Alerts")).to_be_visible()
    expect(tabs.get_by_role("link", name="Changes")).to_have_count(0)
