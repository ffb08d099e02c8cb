"""Write screenshots of every screen of the console with a living fleet: `make console-shots` (ARGS="plant-live" for some).

They are written to build/console-shots, for a person to look at: 1280 pixels wide in light and dark, and 390, in English; in
German 1280 and 390. With ARGS=--docs, only the pictures of the docs are made and copied to docs/images, of a fleet without
refused messages. By day: at night it produces nothing.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx
import psycopg
from playwright.sync_api import Page, expect, sync_playwright

from gridfleet.kernel.ids import new_id
from support.clients.watched_page import open_browser
from support.servers.running_stack import RunningStack


class View(NamedTuple):
    """Width in pixels, colours and language of pictures."""

    width: int
    colours: Literal["light", "dark"] = "light"
    locale: str = "en-GB"


ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "console-shots"
IMAGES = ROOT / "docs" / "images"
IN_DOCS = ("fleet", "plant-history")
SLUG = "demo"
BATTERY_TEMPLATE = "00000000-0000-7000-8000-000000000005"
VIEWS = {
    "light": View(1280),
    "dark": View(1280, "dark"),
    "phone": View(390),
    "german": View(1280, locale="de-DE"),
    "german-phone": View(390, locale="de-DE"),
}
RULES = (
    # The frequency of the simulated grid is lower now and then at any time of day, and some cabinet is always humid.
    ("Low grid frequency", "frequency", "LT", 49.98, "INFO"),
    ("Humid cabinet", "humidity", "GT", 55, "WARNING"),
    ("Battery too warm", "BAT1.temperature", "GT", 45, "CRITICAL"),
    ("Low state of charge", "soc", "LT", 12, "WARNING"),
)
MEMBERS = (("Anna Novak", "ORG_ADMIN"), ("Jonas Weber", "OPERATOR"), ("Lucia Rossi", "OPERATOR"), ("Piet de Vries", "VIEWER"))
SIMULATION = (
    "--plants",
    "12",
    "--interval",
    "1",
    "--history",
    "2",
    "--history-interval",
    "120",
)
REFUSED = ("--faults", "bad-signature")
KEY_SCOPES = ["telemetry:read", "vcp:connect", "vcp:read", "vcp:write:setpoint"]
LATE_ENERGIES_SECONDS = 240
"""The energies of values that arrive late are computed every two minutes."""


class Shown(NamedTuple):
    """Ids of what the screens of single things show."""

    plant: str
    rule: str
    group: str
    alert: str


def screens(shown: Shown) -> dict[str, str]:
    """Return the path of each screen below the console by name."""
    plant = f"o/{SLUG}/plants/{shown.plant}"
    return {
        "fleet": f"o/{SLUG}/fleet",
        "fleet-map": f"o/{SLUG}/fleet?view=map",
        "alerts": f"o/{SLUG}/alerts?status=%5B%22ACTIVE%22%2C%22ACKNOWLEDGED%22%2C%22RESOLVED%22%5D",
        "alert": f"o/{SLUG}/alerts/{shown.alert}",
        "plant-live": f"{plant}/live",
        "plant-history": f"{plant}/history?last=24h",
        "plant-energy": f"{plant}/energy?period=day",
        "plant-devices": f"{plant}/devices",
        "plant-commands": f"{plant}/commands",
        "plant-messages": f"{plant}/messages",
        "plant-alerts": f"{plant}/alerts",
        "plant-credentials": f"{plant}/credentials",
        "plant-trading": f"{plant}/trading",
        "plant-audit": f"{plant}/audit",
        "rules": f"o/{SLUG}/rules",
        "rule": f"o/{SLUG}/rules/{shown.rule}",
        "new-rule": f"o/{SLUG}/rules/new",
        "groups": f"o/{SLUG}/groups",
        "group": f"o/{SLUG}/groups/{shown.group}",
        "templates": f"o/{SLUG}/templates",
        "template": f"o/{SLUG}/templates/{BATTERY_TEMPLATE}",
        "new-template": f"o/{SLUG}/templates/new",
        "new-plant": f"o/{SLUG}/plants/new",
        "import-plants": f"o/{SLUG}/plants/import",
        "trading": f"o/{SLUG}/trading",
        "partners": f"o/{SLUG}/partners",
        "people": f"o/{SLUG}/people",
        "audit": f"o/{SLUG}/audit",
        "me": f"o/{SLUG}/me",
        "admin-organizations": "admin/organizations",
        "admin-users": "admin/users",
        "admin-sandbox": "admin/sandbox",
        "admin-notifications": "admin/notifications",
        "admin-cache": "admin/cache",
        "admin-keys": "admin/keys",
        "admin-health": "admin/health",
    }


@contextmanager
def simulated(stack: RunningStack, folder: Path, faults: tuple[str, ...]) -> Iterator[str]:
    """Simulate a fleet with two days of history until the end of the block. Yields the id of one plant."""
    ledger = folder / "ledger.jsonl"
    command = [sys.executable, "-m", "gridfleet", "simulate", *SIMULATION, *faults, "--organization", SLUG]
    command += ["--state", str(folder), "--ledger", str(ledger)]
    with (folder / "simulation.log").open("wb") as log, subprocess.Popen(command, env=stack.environment, stdout=log) as running:
        try:
            yield first_plant(ledger)
        finally:
            running.terminate()


def first_plant(ledger: Path) -> str:
    """Return the id of the first plant of a ledger when it is written."""
    for _ in range(600):
        lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
        for line in lines:
            if line["kind"] == "plant":
                return str(line["plantId"])
        time.sleep(0.5)
    raise TimeoutError("the simulator registered no plant")


def log_in(page: Page, stack: RunningStack) -> None:
    """Log in as the first SuperAdmin."""
    page.goto("/console/")
    page.locator("input[type=email]").fill(stack.admin_email)
    page.locator("input[type=password]").fill(stack.admin_password)
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "/fleet" in url)


def add_members(stack: RunningStack) -> None:
    """Add members, who cannot log in, to the organisation: an invitation is accepted by a link in a mail."""
    with psycopg.connect(stack.database_url) as db:
        for name, role in MEMBERS:
            user, email = new_id(), f"{name.split()[0].lower()}@example.com"
            db.execute(
                "INSERT INTO user_account (id, email, name, password_hash) VALUES (%s, %s, %s, 'none')", (user, email, name)
            )
            db.execute(
                "INSERT INTO membership (id, organization_id, user_id, role)"
                " SELECT %s, id, %s, %s FROM organization WHERE slug = %s",
                (new_id(), user, role, SLUG),
            )


def add_content(stack: RunningStack, plant_id: str) -> Shown:
    """Add members, a group, a partner's key and alert rules, and wait until one of the rules has raised an alert."""
    add_members(stack)
    with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=60) as http:
        login = http.post("/auth/login", json={"email": stack.admin_email, "password": stack.admin_password}).json()
        http.headers["authorization"] = f"Bearer {login['access_token']}"
        [organization] = http.get("/organizations").json()["data"]
        http.headers["x-org-id"] = organization["id"]

        def create(path: str, **body: Any) -> str:
            return str(http.post(path, json=body).raise_for_status().json()["id"])

        group = create("/plant-groups", name="Harbour district")
        http.post(f"/plant-groups/{group}/plants", json={"plantIds": [plant_id]}).raise_for_status()
        key = {"name": "Harbour Trading", "partnerId": "harbour-trading", "scopes": KEY_SCOPES}
        http.post("/partner/api-keys", json=key).raise_for_status()
        http.post("/invitations", json={"email": "maria@example.com", "role": "VIEWER"}).raise_for_status()
        for name, metric, condition, threshold, severity in RULES:
            rule = create("/alert-rules", name=name, metric=metric, condition=condition, threshold=threshold, severity=severity)
        for _ in range(600):
            if alerts := http.get("/alerts").json()["data"]:
                return Shown(plant_id, rule, group, alerts[0]["id"])
            time.sleep(0.5)
    raise TimeoutError("no rule has raised an alert")


def main() -> None:
    """Start the service, simulate a fleet, and write every screen, or those of the arguments, in every view."""
    is_for_docs = sys.argv[1:] == ["--docs"]
    wanted = IN_DOCS if is_for_docs else sys.argv[1:]
    views = {"light": VIEWS["light"]} if is_for_docs else VIEWS
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="gridfleet-shots-") as name:
        folder = Path(name)
        stack = RunningStack(folder / "home").start()
        try:
            with simulated(stack, folder, () if is_for_docs else REFUSED) as plant_id, sync_playwright() as playwright:
                browser = open_browser(playwright)
                shown: Shown | None = None
                for view, (width, colours, locale) in views.items():
                    context = browser.new_context(
                        base_url=stack.base_url,
                        viewport={"width": width, "height": 844},
                        color_scheme=colours,
                        locale=locale,
                    )
                    page = context.new_page()
                    page.goto("/console/login")
                    page.get_by_role("heading", level=1).wait_for()
                    page.screenshot(path=TARGET / f"login-{view}.png")
                    page.goto("/console/forgot")
                    page.get_by_role("heading", level=1).wait_for()
                    page.screenshot(path=TARGET / f"forgot-{view}.png")
                    log_in(page, stack)
                    shown = shown or add_content(stack, plant_id)
                    # All plants are online, and their powers are summed up.
                    expect(page.get_by_role("link", name=re.compile("^Online"))).to_contain_text("12", timeout=300_000)
                    expect(page.get_by_text(re.compile("too old|zu alt"))).to_have_count(0, timeout=300_000)
                    if is_for_docs:
                        page.wait_for_timeout(1_000 * LATE_ENERGIES_SECONDS)
                    for screen, path in screens(shown).items():
                        if wanted and screen not in wanted:
                            continue
                        page.goto(f"/console/{path}")
                        page.wait_for_load_state("networkidle")
                        page.wait_for_timeout(500)
                        page.screenshot(path=TARGET / f"{screen}-{view}.png", full_page=not is_for_docs)
                    context.close()
                browser.close()
        finally:
            stack.destroy()
    for screen in IN_DOCS if is_for_docs else ():
        shutil.copyfile(TARGET / f"{screen}-light.png", IMAGES / f"console-{screen}.png")
    sys.stdout.write(f"{TARGET}\n")


if __name__ == "__main__":
    main()
