"""The devices of a plant: found among many, changed, commanded and deleted."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
from playwright.sync_api import Route, expect
from psycopg.types.json import Jsonb

from gridfleet.kernel.ids import new_id
from support.clients.console_data import add_system_templates
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
DEVICES = 60


def add_batteries(database_url: str, plant_id: str) -> None:
    """Register BAT01 to BAT60 of a plant, in this order, and activate it."""
    with psycopg.connect(database_url) as db, db.cursor() as cursor:
        cursor.execute("UPDATE plant SET lifecycle_status = 'ACTIVE' WHERE id = %s", (plant_id,))
        cursor.executemany(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT %s, organization_id, id, %s, %s, 'BATTERY' FROM plant WHERE id = %s",
            [(new_id(), f"BAT{number:02}", f"Battery {number:02}", plant_id) for number in range(1, DEVICES + 1)],
        )


def give_template(database_url: str, name: str, *actions: dict[str, Any]) -> UUID:
    """Give BAT60 a new template with these actions. Returns its id."""
    template_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
            " VALUES (%s, %s, 'BATTERY', 'SUB_DEVICE', 1, '[]', %s)",
            (template_id, name, Jsonb(actions)),
        )
        db.execute("UPDATE sub_device SET template_id = %s WHERE external_id = 'BAT60'", (template_id,))
    return template_id


def test_a_device_is_found_changed_commanded_and_deleted(watched: Watched, user: User, database_url: str) -> None:
    add_system_templates(database_url)
    operator = user(role="OPERATOR")
    [plant_id] = add_plants(database_url, operator.slugs[0], "Barn")
    add_batteries(database_url, plant_id)
    page = watched.page
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices")
    expect(page.get_by_role("rowheader")).to_have_count(50)
    page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("rowheader")).to_have_count(DEVICES - 50)
    expect(page.get_by_role("rowheader").last).to_contain_text("Battery 01")
    watched.check_accessibility()
    page.reload()
    expect(page.get_by_role("rowheader")).to_have_count(DEVICES - 50)

    page.get_by_label("Search name, name in messages or serial number").fill("bat07")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    row = page.get_by_role("row").filter(has_text="BAT07")
    expect(row.get_by_role("button", name="Send a command")).to_have_count(0)
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Change Battery 07")
    dialog.get_by_label("Name").fill("Cellar")
    dialog.get_by_label("Serial number").fill("C-7")
    assert "Gridfleet inverter" not in dialog.get_by_label("Template").inner_text()
    dialog.get_by_label("Template").select_option("Gridfleet battery")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Cellar")
    expect(row).to_contain_text("BAT07 · C-7")
    expect(row).to_contain_text("Gridfleet battery")

    row.get_by_role("button", name="Send a command").click()
    page.get_by_role("dialog").get_by_label("Action").select_option("Stop")
    page.get_by_role("dialog").get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("region", name="Commands").get_by_role("heading", level=3)).to_have_text("BAT07: stop")
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 844})
    watched.check_width(390)
    for tab in page.get_by_role("navigation", name="Screens of the plant").get_by_role("link").all():
        expect(tab).to_be_in_viewport(ratio=1)
    expect(row.get_by_role("button", name="Delete")).to_be_in_viewport(ratio=1)

    row.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Cellar?")
    dialog.get_by_label("Type “Cellar” to confirm").fill("Cellar")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No device found.")).to_be_visible()
    watched.check_accessibility()
    page.goto(f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices?page=9")
    page.get_by_role("button", name="Previous page").click()
    expect(page).to_have_url(re.compile("page=2"))
    expect(page.get_by_role("rowheader")).to_have_count(DEVICES - 51)
    with psycopg.connect(database_url) as db:
        rows = db.execute("SELECT external_id FROM sub_device WHERE plant_id = %s", (plant_id,)).fetchall()
    assert len(rows) == DEVICES - 1
    assert ("BAT07",) not in rows


def test_a_command_is_sent_once_for_each_dialog(watched: Watched, user: User, database_url: str) -> None:
    """Neither a second click nor a second try after a lost response sends another one; another dialog does."""
    watched.follow_requests()
    watched.allowed.append("ERR_FAILED")
    add_system_templates(database_url)
    operator = user(role="OPERATOR")
    [plant_id] = add_plants(database_url, operator.slugs[0], "Barn")
    add_batteries(database_url, plant_id)
    with psycopg.connect(database_url) as db:
        db.execute(
            "UPDATE sub_device SET template_id = (SELECT id FROM device_template WHERE name = 'Gridfleet battery')"
            " WHERE plant_id = %s AND external_id = 'BAT60'",
            (plant_id,),
        )
    page = watched.page
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices")
    opening = page.get_by_role("row").filter(has_text="BAT60").get_by_role("button", name="Send a command")
    opening.click()
    dialog = page.get_by_role("dialog")
    sending = dialog.get_by_role("button", name="Send", exact=True)
    dialog.get_by_label("Action").select_option("Stop")
    # Of two clicks that wait for a busy page, the second one comes before any timer, after all microtasks.
    sending.evaluate(
        """async button => {
          button.click();
          for (let task = 0; task < 50; task++) await null;
          button.click();
        }"""
    )
    expect(dialog).to_have_count(0)
    watched.wait_until_loaded()

    def end_all() -> int:
        """End the plant's commands. Returns their number."""
        with psycopg.connect(database_url) as db:
            return db.execute(
                "UPDATE plant_command SET status = 'EXPIRED', finished_at = expires_at, due_at = NULL WHERE plant_id = %s",
                (plant_id,),
            ).rowcount

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    assert end_all() == 1
    lost = "**/sub-devices/BAT60/commands"
    page.route(lost, lose)
    opening.click()
    dialog.get_by_label("Action").select_option("Stop")
    for _ in range(2):
        with page.expect_event("requestfailed"):
            sending.click()
        assert end_all() == 2
    dialog.get_by_role("button", name="Cancel").click()
    page.unroute(lost)
    opening.click()
    dialog.get_by_label("Action").select_option("Stop")
    sending.click()
    expect(dialog).to_have_count(0)
    assert end_all() == 3


def test_an_optional_choice_is_not_sent_unmade(watched: Watched, user: User, database_url: str) -> None:
    operator = user(role="OPERATOR")
    [plant_id] = add_plants(database_url, operator.slugs[0], "Barn")
    add_batteries(database_url, plant_id)
    params = [
        {"name": "mode", "type": "enum", "enum": ["OFF", "ECO"], "required": False},
        {"name": "steps", "type": "integer", "min": 0.5},
    ]
    give_template(database_url, "Choosy battery", {"action": "run", "params": params})
    page = watched.page
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices")
    for mode in (None, "ECO"):
        page.get_by_role("row").filter(has_text="BAT60").get_by_role("button", name="Send a command").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("steps").fill("2")
        if mode is not None:
            dialog.get_by_label("mode").select_option(mode)
        watched.check_accessibility()
        dialog.get_by_role("button", name="Send", exact=True).click()
        expect(dialog).to_have_count(0)
    with psycopg.connect(database_url) as db:
        rows = db.execute(
            "SELECT instruction -> 'params' FROM plant_command WHERE plant_id = %s ORDER BY id", (plant_id,)
        ).fetchall()
    assert [sent for (sent,) in rows] == [{"steps": 2}, {"mode": "ECO", "steps": 2}]


def test_a_device_keeps_a_template_that_the_page_has_not_read(watched: Watched, user: User, database_url: str) -> None:
    """The field showed the first template of the type instead, which was saved with another name of the device."""
    watched.follow_requests()
    add_system_templates(database_url)
    operator = user(role="OPERATOR")
    [plant_id] = add_plants(database_url, operator.slugs[0], "Barn")
    add_batteries(database_url, plant_id)
    page = watched.page
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices?page=2")
    expect(page.get_by_role("rowheader")).to_have_count(DEVICES - 50)
    watched.wait_until_loaded()
    template_id = give_template(database_url, "Zinc battery")
    page.get_by_role("button", name="Previous page").click()
    row = page.get_by_role("row").filter(has_text="BAT60")
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Attic")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Attic")
    with psycopg.connect(database_url) as db:
        [kept] = db.execute("SELECT name, template_id FROM sub_device WHERE external_id = 'BAT60'").fetchall()
    assert kept == ("Attic", template_id)


def test_who_may_only_see_devices_gets_no_buttons(watched: Watched, user: User, database_url: str) -> None:
    viewer = user(role="VIEWER")
    [plant_id] = add_plants(database_url, viewer.slugs[0], "Barn")
    add_batteries(database_url, plant_id)
    viewer.log_in(watched.page, f"/console/o/{viewer.slugs[0]}/plants/{plant_id}/devices")
    expect(watched.page.get_by_role("rowheader")).to_have_count(50)
    for name in ("Register a device", "Change", "Delete"):
        expect(watched.page.get_by_role("button", name=name)).to_have_count(0)
