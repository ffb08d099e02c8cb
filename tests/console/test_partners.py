"""Keys of programs: created with their secrets shown once, and revoked."""

from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import psycopg
from playwright.sync_api import Route, expect

from support.clients.console_user import ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched
from support.servers.served import Served


def test_a_key_is_created_used_and_revoked(watched: Watched, service: Served, user: Callable[..., ConsoleUser]) -> None:
    page = watched.page
    user(role="ORG_ADMIN").log_in(page)
    page.get_by_role("link", name="Partners", exact=True).click()
    expect(page.get_by_text("There are no keys.")).to_be_visible()
    watched.check_accessibility()
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("Monitoring")
    dialog.get_by_label("Partner").fill("acme")
    dialog.get_by_label("Allowed addresses").fill("not an address")
    dialog.get_by_role("checkbox", name="Read plants, devices and groups plants:read").check()
    change = dialog.get_by_role("checkbox", name="Change alert rules, acknowledge and resolve alerts telemetry:write")
    expect(change).to_be_visible()
    watched.allowed.append("status of 400")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("allowedIps.0")
    watched.check_accessibility()
    dialog.get_by_label("Allowed addresses").fill("127.0.0.0/8")
    dialog.get_by_role("button", name="Create").click()

    shown = page.get_by_role("dialog", name="Key of Monitoring")
    for _ in range(3):
        page.keyboard.press("Escape")
    key = shown.get_by_label("Key", exact=True).input_value()
    watched.check_accessibility()
    shown.get_by_role("button", name="Close").click()
    expect(page.get_by_role("row").filter(has_text="Monitoring")).to_contain_text("Read plants, devices and groups plants:read")
    headers = {"x-api-key": key}
    assert httpx.get(f"{service.url}/api/v1/plants", headers=headers).status_code == 200

    page.get_by_role("button", name="Revoke").click()
    confirm = page.get_by_role("dialog", name="Revoke Monitoring?")
    confirm.get_by_label("Type “Monitoring” to confirm").fill("Monitoring")
    confirm.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row").filter(has_text="Monitoring")).to_contain_text("revoked")
    assert httpx.get(f"{service.url}/api/v1/plants", headers=headers).status_code == 401


def test_the_limits_of_a_key_are_shown(
    watched: Watched, service: Served, database_url: str, user: Callable[..., ConsoleUser]
) -> None:
    page, administrator = watched.page, user(role="ORG_ADMIN")
    plants = add_plants(database_url, administrator.slugs[0], "Barn", "Mill")
    with psycopg.connect(database_url) as db:
        found = db.execute("SELECT id FROM organization WHERE slug = %s", (administrator.slugs[0],)).fetchone()
    assert found is not None
    headers = {**service.headers, "x-org-id": str(found[0])}
    limits = {"Free": {}, "Limited": {"allowedPlantIds": plants, "allowedIps": ["192.0.2.0/24", "2001:db8::/32"]}}
    for name, limit in limits.items():
        body = {"name": name, "partnerId": "acme", "scopes": ["plants:read"], **limit}
        httpx.post(f"{service.url}/api/v1/partner/api-keys", json=body, headers=headers).raise_for_status()
    administrator.log_in(page, f"/console/o/{administrator.slugs[0]}/partners")
    limited = page.get_by_role("row").filter(has_text="Limited")
    expect(limited).to_contain_text("Only of 2 plants")
    expect(limited).to_contain_text("Only from 192.0.2.0/24, 2001:db8::/32")
    expect(page.get_by_role("row").filter(has_text="Free")).not_to_contain_text("Only")
    watched.check_accessibility()


def test_a_key_that_expires(watched: Watched, database_url: str, user: Callable[..., ConsoleUser]) -> None:
    page = watched.page
    user(role="ORG_ADMIN").log_in(page)
    page.get_by_role("link", name="Partners", exact=True).click()
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("Audit")
    dialog.get_by_label("Partner").fill("acme")
    dialog.get_by_role("checkbox", name="Read plants, devices and groups plants:read").check()
    year = datetime.now(UTC).year + 1
    dialog.get_by_label("Valid until (UTC)").fill(f"{year}-03-31T22:00")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("dialog", name="Key of Audit").get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="Audit")
    expect(row).to_contain_text(f"31 Mar {year}, 22:00:00 UTC")
    with psycopg.connect(database_url, autocommit=True) as db:
        db.execute("UPDATE partner_key SET expires_at = now() WHERE name = 'Audit'")
    page.reload()
    expect(row).to_contain_text("expired")
    expect(row.get_by_role("button", name="Revoke")).to_have_count(0)
    # One that was revoked before its end stays revoked.
    with psycopg.connect(database_url, autocommit=True) as db:
        db.execute("UPDATE partner_key SET revoked_at = now() WHERE name = 'Audit'")
    page.reload()
    expect(row).to_contain_text("revoked")


def test_the_oldest_of_many_keys_can_be_revoked(
    watched: Watched, service: Served, database_url: str, user: Callable[..., ConsoleUser]
) -> None:
    page, administrator = watched.page, user(role="ORG_ADMIN")
    with psycopg.connect(database_url) as db:
        row = db.execute("SELECT id FROM organization WHERE slug = %s", (administrator.slugs[0],)).fetchone()
    assert row is not None
    headers = service.headers | {"x-org-id": str(row[0])}
    for number in range(101):
        body = {"name": f"Key {number}", "partnerId": "acme", "scopes": ["plants:read"]}
        httpx.post(f"{service.url}/api/v1/partner/api-keys", json=body, headers=headers).raise_for_status()
    administrator.log_in(page, f"/console/o/{administrator.slugs[0]}/partners")
    for number in (50, 0):
        page.get_by_role("button", name="Next page").click()
        expect(page.get_by_role("row").filter(has_text=f"Key {number}acme")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    confirm = page.get_by_role("dialog", name="Revoke Key 0?")
    confirm.get_by_label("Type “Key 0” to confirm").fill("Key 0")
    confirm.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row").filter(has_text="Key 0")).to_contain_text("revoked")


def test_a_key_is_limited_to_plants(
    watched: Watched, service: Served, database_url: str, user: Callable[..., ConsoleUser]
) -> None:
    page, administrator = watched.page, user(role="ORG_ADMIN")
    barn, _, shed = add_plants(database_url, administrator.slugs[0], "Barn", "Mill", "Shed")
    administrator.log_in(page, f"/console/o/{administrator.slugs[0]}/partners")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New key")
    dialog.get_by_label("Name", exact=True).fill("Reader")
    dialog.get_by_label("Partner").fill("acme")
    dialog.get_by_role("checkbox", name="Read plants, devices and groups plants:read").check()
    plants = dialog.get_by_role("group", name="Plants")
    expect(plants).to_contain_text("All plants, also future ones")
    for name in ("Barn", "Mill", "Shed"):
        plants.get_by_role("searchbox").fill(name)
        plants.get_by_role("button", name=f"{name} SN {name}").click()
        expect(plants.get_by_role("searchbox")).to_have_value("")
    plants.get_by_role("button", name="Remove Mill").click()
    plants.get_by_role("searchbox").fill("Shed")
    expect(plants.get_by_text("Shed is chosen")).to_be_visible()
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    dialog.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="Key of Reader")
    headers = {"x-api-key": shown.get_by_label("Key", exact=True).input_value()}
    shown.get_by_role("button", name="Close").click()
    expect(page.get_by_role("row").filter(has_text="Reader")).to_contain_text("Only of 2 plants")
    reached = httpx.get(f"{service.url}/api/v1/plants", headers=headers).raise_for_status().json()["data"]
    assert {plant["id"] for plant in reached} == {barn, shed}


def test_escape_waits_for_the_end_of_a_change(watched: Watched, user: Callable[..., ConsoleUser], database_url: str) -> None:
    """The page would not say that the key was not revoked, or the group not changed."""
    page, administrator = watched.page, user(role="ORG_ADMIN")
    add_group(database_url, administrator.slugs[0], "North")
    administrator.log_in(page, f"/console/o/{administrator.slugs[0]}/partners")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Reader")
    dialog.get_by_label("Partner").fill("acme")
    dialog.get_by_role("checkbox", name="Read plants, devices and groups plants:read").check()
    dialog.get_by_role("button", name="Create").click()
    dialog.get_by_role("button", name="Close").click()
    watched.allowed.append("ERR_FAILED")

    def answer_late(route: Route) -> None:
        for _ in range(3):
            page.keyboard.press("Escape")
        expect(dialog).to_be_visible()
        route.abort()

    page.get_by_role("button", name="Revoke").click()
    dialog.get_by_label("to confirm").fill("Reader")
    page.route("**/partner/api-keys/*", answer_late)
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_role("button", name="Change North").click()
    dialog.get_by_label("Name", exact=True).fill("South")
    page.route("**/plant-groups/*", lambda route: answer_late(route) if route.request.method == "PATCH" else route.continue_())
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
