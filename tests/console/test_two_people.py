"""Two people who change the same thing: what one of them leaves as it is stays as the other one has set it."""

from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest
from playwright.sync_api import expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched
from support.servers.served import Served

SIGNAL = {"key": "soc", "field": "soc", "unit": "%"}


@pytest.fixture
def super_admin(user: Callable[..., ConsoleUser], database_url: str) -> ConsoleUser:
    """Return a SuperAdmin with an organisation."""
    made = user()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (made.email,))
    return made


@pytest.fixture
def call(service: Served, database_url: str, super_admin: ConsoleUser) -> Callable[..., Any]:
    """Return a function that sends a request of the other person in the organisation of the first."""
    with psycopg.connect(database_url) as db:
        row = db.execute("SELECT id FROM organization WHERE slug = %s", (super_admin.slugs[0],)).fetchone()
    assert row is not None
    headers = service.headers | {"x-org-id": str(row[0])}

    def send(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        response = httpx.request(method, f"{service.url}/api/v1{path}", json=body, headers=headers, timeout=60)
        response.raise_for_status()
        return response.json()

    return send


def test_an_organisation(watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]) -> None:
    page, slug = watched.page, f"new-{new_id().hex}"
    made = call("POST", "/organizations", {"name": "Northern Lights", "slug": slug})
    super_admin.log_in(page, f"/console/admin/organizations?q={slug}")
    page.get_by_role("button", name="Change Northern Lights").click()
    dialog = page.get_by_role("dialog", name="Change Northern Lights")
    call("PATCH", f"/organizations/{made['id']}", {"slug": f"{slug}-2", "timeZone": "Europe/Oslo"})
    dialog.get_by_label("Description").fill("Of the north")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    [found] = call("GET", f"/organizations?q={slug}")["data"]
    assert (found["slug"], found["timeZone"], found["description"]) == (f"{slug}-2", "Europe/Oslo", "Of the north")


def test_the_trading_configuration(watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]) -> None:
    page = watched.page
    call("POST", "/trading/config", {"esmClientId": "first"})
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/trading")
    page.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Energy market (ESM)")
    call("POST", "/trading/config", {"esmClientId": "second"})
    dialog.get_by_label("Queue prefix").fill("queues")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    found = call("GET", "/trading/config")
    assert (found["esmClientId"], found["queuePrefix"]) == ("second", "queues")


def test_an_alert_rule(watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]) -> None:
    page = watched.page
    body = {"name": "Low", "metric": "soc", "condition": "LT", "threshold": 10}
    path = f"/alert-rules/{call('POST', '/alert-rules', body)['id']}"
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/rules")
    page.get_by_role("link", name="Low").click()
    expect(page.get_by_label("Threshold", exact=True)).to_have_value("10")
    call("PATCH", path, {"threshold": 20, "enabled": False})
    page.get_by_label("Name", exact=True).fill("Lower")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Lower")).to_be_visible()
    found = call("GET", path)
    assert (found["name"], found["threshold"], found["enabled"]) == ("Lower", 20, False)


def test_a_form_that_is_opened_again_has_what_the_other_person_saved(
    watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]
) -> None:
    page = watched.page
    body = {"name": "Low", "metric": "soc", "condition": "LT", "threshold": 10}
    path = f"/alert-rules/{call('POST', '/alert-rules', body)['id']}"
    content = {"name": "Acme battery", "type": "BATTERY", "level": "SUB_DEVICE", "version": 1, "signals": [SIGNAL]}
    template = f"/device-templates/{call('POST', '/device-templates', content)['id']}"
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/rules")
    page.get_by_role("link", name="Low").click()
    expect(page.get_by_label("Threshold", exact=True)).to_have_value("10")
    page.get_by_role("link", name="Templates", exact=True).click()
    page.get_by_role("link", name="Acme battery").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Acme battery")
    call("PATCH", path, {"threshold": 20})
    call("PATCH", template, {"signals": [{**SIGNAL, "unit": "percent"}]})
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_role("row").filter(has_text="soc")).to_contain_text("percent")
    page.get_by_role("link", name="Alert rules").click()
    page.get_by_role("link", name="Low").click()
    expect(page.get_by_label("Threshold", exact=True)).to_have_value("20")


def test_a_template(watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]) -> None:
    page = watched.page
    content = {"name": "Acme battery", "type": "BATTERY", "level": "SUB_DEVICE", "version": 1, "signals": [SIGNAL]}
    made = call("POST", "/device-templates", content)
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/templates/{made['id']}/edit")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Acme battery")
    changed = [{**SIGNAL, "scale": 0.1}]
    call("PATCH", f"/device-templates/{made['id']}", {"signals": changed, "actions": [{"action": "stop"}]})
    page.get_by_label("Name", exact=True).fill("Better battery")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Better battery")
    found = call("GET", f"/device-templates/{made['id']}")
    assert found["signals"] == changed
    assert [action["action"] for action in found["actions"]] == ["stop"]


def test_the_actions_of_a_template_while_a_command_is_written(
    watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any], database_url: str
) -> None:
    watched.follow_requests()
    page, slug = watched.page, super_admin.slugs[0]
    actions = [{"action": "start"}, {"action": "stop"}]
    content = {"name": "Acme battery", "type": "BATTERY", "level": "SUB_DEVICE", "version": 1, "signals": [SIGNAL]}
    template_id = call("POST", "/device-templates", {**content, "actions": actions})["id"]
    [plant_id] = add_plants(database_url, slug, "Barn")
    device = {"externalId": "BAT1", "name": "Battery", "type": "BATTERY", "templateId": template_id}
    call("POST", f"/plants/{plant_id}/sub-devices", device)
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET lifecycle_status = 'ACTIVE' WHERE id = %s", (plant_id,))
    page.clock.install()
    super_admin.log_in(page, f"/console/o/{slug}/plants/{plant_id}/devices")
    page.get_by_role("button", name="Send a command").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Action").select_option("stop")
    call("PATCH", f"/device-templates/{template_id}", {"actions": [{"action": "boost"}, *actions]})
    # As if the user had looked at another window for a while: then the page reads again what is old.
    page.clock.fast_forward(61_000)
    with page.expect_response("**/api/v1/device-templates?level=SUB_DEVICE"):
        page.evaluate("dispatchEvent(new Event('visibilitychange'))")
    watched.wait_until_loaded()
    dialog.get_by_role("button", name="Send", exact=True).click()
    expect(dialog).to_have_count(0)
    [command] = call("GET", f"/commands?plantId={plant_id}")["data"]
    assert command["action"] == "stop"


def test_a_refusal_is_shown_before_the_list_is_read_again(
    watched: Watched, super_admin: ConsoleUser, call: Callable[..., Any]
) -> None:
    page = watched.page
    watched.allowed.append("status of 404")
    group = call("POST", "/plant-groups", {"name": "North"})
    super_admin.log_in(page, f"/console/o/{super_admin.slugs[0]}/groups")
    page.get_by_role("button", name="Delete North").click()
    call("DELETE", f"/plant-groups/{group['id']}")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("to confirm").fill("North")
    with watched.held("**/plant-groups?*"):
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("link", name="North")).to_have_count(0)
