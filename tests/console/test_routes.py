"""Every page of the console opens for every role without an error, and shows no action that the role may not take."""

import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import expect

from support.clients.console_data import add_alert, add_rule, add_system_templates
from support.clients.console_user import ConsoleUser, add_group, add_plants
from support.clients.watched_page import Watched

SOURCES = Path(__file__).parents[2] / "console" / "src"
ROLES = ("VIEWER", "OPERATOR", "ORG_ADMIN", "SUPER_ADMIN")
BATTERY_TEMPLATE = "00000000-0000-7000-8000-000000000005"
PAGES = {
    "/login": "VIEWER",
    "/forgot": "VIEWER",
    "/": "VIEWER",
    "/me": "VIEWER",
    "/admin": "SUPER_ADMIN",
    "/admin/organizations": "SUPER_ADMIN",
    "/admin/users": "SUPER_ADMIN",
    "/admin/templates": "VIEWER",
    "/admin/sandbox": "SUPER_ADMIN",
    "/admin/notifications": "SUPER_ADMIN",
    "/admin/cache": "SUPER_ADMIN",
    "/admin/keys": "SUPER_ADMIN",
    "/admin/health": "SUPER_ADMIN",
    "/o/$slug": "VIEWER",
    "/o/$slug/fleet": "VIEWER",
    "/o/$slug/alerts": "VIEWER",
    "/o/$slug/alerts/$alertId": "VIEWER",
    "/o/$slug/rules": "VIEWER",
    "/o/$slug/rules/new": "VIEWER",
    "/o/$slug/rules/$ruleId": "VIEWER",
    "/o/$slug/groups": "VIEWER",
    "/o/$slug/groups/$groupId": "VIEWER",
    "/o/$slug/templates": "VIEWER",
    "/o/$slug/templates/new": "VIEWER",
    "/o/$slug/templates/$templateId": "VIEWER",
    "/o/$slug/templates/$templateId/edit": "VIEWER",
    "/o/$slug/trading": "VIEWER",
    "/o/$slug/partners": "ORG_ADMIN",
    "/o/$slug/people": "ORG_ADMIN",
    "/o/$slug/audit": "ORG_ADMIN",
    "/o/$slug/me": "VIEWER",
    "/o/$slug/plants/new": "ORG_ADMIN",
    "/o/$slug/plants/import": "OPERATOR",
    "/o/$slug/plants/$plantId": "VIEWER",
    "/o/$slug/plants/$plantId/live": "VIEWER",
    "/o/$slug/plants/$plantId/history": "VIEWER",
    "/o/$slug/plants/$plantId/energy": "VIEWER",
    "/o/$slug/plants/$plantId/devices": "VIEWER",
    "/o/$slug/plants/$plantId/commands": "VIEWER",
    "/o/$slug/plants/$plantId/messages": "VIEWER",
    "/o/$slug/plants/$plantId/alerts": "VIEWER",
    "/o/$slug/plants/$plantId/trading": "VIEWER",
    "/o/$slug/plants/$plantId/credentials": "VIEWER",
    "/o/$slug/plants/$plantId/audit": "ORG_ADMIN",
}
"""The path of each page, and the least role that may see what it shows."""


def test_every_page_is_visited() -> None:
    routes = [path.read_text() for path in (SOURCES / "router.ts", *(SOURCES / "routes").glob("*.ts"))]
    parents = {
        name: (parent, path)
        for name, parent, path in re.findall(
            r'const (\w+) = createRoute\(\{\s*getParentRoute: \(\) => (\w+),\s*(?:path: "([^"]*)"|id: "[^"]*")',
            "\n".join(routes),
        )
    }

    def path_of(name: str) -> str:
        parent, path = parents[name]
        return (path_of(parent) if parent in parents else "") + path.rstrip("/")

    assert {path_of(name) or "/" for name in parents} == PAGES.keys()


@pytest.mark.parametrize("role", ROLES)
def test_every_page_opens(watched: Watched, user: Callable[..., ConsoleUser], database_url: str, role: str) -> None:
    watched.follow_requests()
    page = watched.page
    made = user(role="VIEWER" if role == "SUPER_ADMIN" else role)
    if role == "SUPER_ADMIN":
        with psycopg.connect(database_url) as db:
            db.execute("UPDATE user_account SET is_super_admin = true WHERE email = %s", (made.email,))
    slug = made.slugs[0]
    [plant] = add_plants(database_url, slug, "Winery")
    add_system_templates(database_url)
    values = {
        "slug": slug,
        "plantId": plant,
        "groupId": add_group(database_url, slug, "Wineries"),
        "ruleId": add_rule(database_url, slug),
        "templateId": BATTERY_TEMPLATE,
        "alertId": add_alert(database_url, plant, "The winery is low"),
    }
    # The service of this test has no broker, which the page of its health shows.
    watched.allowed += ["status of 403", "status of 503"]
    made.log_in(page)
    for path, least in PAGES.items():
        # Within the page, because each new one opens a stream, and the service ends the former ones a moment later.
        page.evaluate(
            "to => history.pushState({}, '', to)", "/console" + re.sub(r"\$(\w+)", lambda found: values[found[1]], path)
        )
        refusal = page.get_by_role("alert")
        if ROLES.index(role) >= ROLES.index(least):
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            watched.wait_until_loaded()
            expect(refusal).to_have_count(0)
            # The title of a screen that names none.
            expect(page).not_to_have_title("Gridfleet")
        else:
            expect(refusal.first).to_be_visible()
