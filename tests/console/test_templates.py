"""Device templates: read by every member, with values to try; written by SuperAdmins."""

from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import expect

from gridfleet.kernel.ids import new_id
from support.clients.console_data import add_system_templates
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


@pytest.fixture(autouse=True)
def system_templates(database_url: str) -> None:
    """Create the system templates."""
    add_system_templates(database_url)


@pytest.fixture
def super_admin(user: User, database_url: str) -> ConsoleUser:
    """Return a SuperAdmin with an organisation."""
    made = user()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (made.email,))
    return made


def add_battery(database_url: str, slug: str) -> None:
    """Add a plant with a battery that uses the system template of batteries."""
    [plant] = add_plants(database_url, slug, "Barn")
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, template_id)"
            " SELECT %s, organization_id, plant.id, 'BAT1', 'BAT1', 'BATTERY', template.id"
            " FROM plant, device_template template WHERE plant.id = %s AND template.name = 'Gridfleet battery'",
            (new_id(), plant),
        )


def test_a_member_reads_a_template_and_tries_values(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    viewer = user()
    add_battery(database_url, viewer.slugs[0])
    viewer.log_in(page)
    counts: list[str] = []
    page.on("request", lambda request: counts.append(request.url) if "/usage" in request.url else None)
    page.get_by_role("link", name="Templates", exact=True).click()
    battery = page.get_by_role("row").filter(has_text="Gridfleet battery")
    expect(battery).to_contain_text("System template, read-only")
    expect(battery).to_contain_text("1 plant, 1 device")
    expect(page.get_by_role("row").filter(has_text="Gridfleet inverter")).to_contain_text("Not used")
    # A list of plants would be read for each template, only to be counted.
    assert counts
    assert all(url.endswith("/usage?limit=1") for url in counts)
    expect(page.get_by_role("link", name="New template")).to_have_count(0)
    watched.check_accessibility()
    battery.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Gridfleet battery")
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="Barn")).to_contain_text("1 device")

    expect(page.get_by_label("Raw value of soc")).to_have_count(0)
    page.get_by_role("button", name="Try raw values").click()
    page.get_by_label("Raw value of soc").fill("81.5")
    expect(page.get_by_label("Stored value of soc")).to_have_text("81.5\u00a0%")
    page.get_by_label("Raw value of soc").fill("181")
    expect(page.get_by_label("Stored value of soc")).to_contain_text("Out of range: stored and flagged")
    page.get_by_label("Raw value of soc").fill("full")
    expect(page.get_by_label("Stored value of soc")).to_have_text("Nothing is stored.")
    # One field for all bits of the word.
    page.get_by_label("Raw value of status").fill("2")
    expect(page.get_by_label("Stored value of running")).to_have_text("0no")
    expect(page.get_by_label("Stored value of fault")).to_have_text("1yes")
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    watched.check_accessibility()


def test_a_super_admin_writes_changes_and_deletes_a_template(watched: Watched, super_admin: ConsoleUser) -> None:
    page = watched.page
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/templates")
    page.get_by_role("link", name="Gridfleet battery").click()
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    page.get_by_role("link", name="New template from this one").click()
    page.get_by_label("Name", exact=True).fill("Acme battery")
    page.get_by_role("button", name="Remove soh").click()
    page.get_by_role("button", name="Edit soc").click()
    dialog = page.get_by_role("dialog", name="soc")
    dialog.get_by_label("Scale").fill("0.1")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Add a signal").click()
    dialog = page.get_by_role("dialog", name="Add a signal")
    dialog.get_by_label("Key").fill("soc")
    expect(dialog.get_by_role("alert")).to_have_text("Another signal has this key.")
    expect(dialog.get_by_role("button", name="Apply")).to_be_disabled()
    dialog.get_by_label("Key").fill("smoke")
    dialog.get_by_label("Kind").select_option("Bit of a whole number")
    dialog.get_by_label("Field").fill("alarms")
    dialog.get_by_label("Bit", exact=True).fill("40")
    dialog.get_by_label("A set bit means no").check()
    watched.check_accessibility()
    dialog.get_by_role("button", name="Apply").click()
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    page.set_viewport_size({"width": 1280, "height": 800})

    watched.allowed.append("status of 400")
    page.get_by_label("Actions, as JSON").fill('[{"action": "stop"}, {"action": "stop"}]')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("actions.1.action: must be unique")
    page.get_by_label("Actions, as JSON").fill('[{"action": "stop"}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("JSON")
    page.get_by_label("Actions, as JSON").fill('[{"action": "stop", "label": "Stop it"}]')
    page.get_by_role("button", name="Save").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Acme battery")
    expect(page.get_by_text("Version 1")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Stop it")).to_contain_text("30 s")
    page.get_by_role("button", name="Try raw values").click()
    page.get_by_label("Raw value of soc").fill("815")
    expect(page.get_by_label("Stored value of soc")).to_have_text("81.5\u00a0%")
    page.get_by_label("Raw value of alarms").fill("1099511627776")
    expect(page.get_by_label("Stored value of smoke")).to_have_text("0no")
    expect(page.get_by_label("Stored value of soh")).to_have_count(0)

    page.get_by_role("link", name="Edit").click()
    page.get_by_role("button", name="Remove smoke").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Version 2")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Acme battery?")
    dialog.get_by_label("Type “Acme battery” to confirm").fill("Acme battery")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Device templates")
    expect(page.get_by_role("link", name="Acme battery")).to_have_count(0)
