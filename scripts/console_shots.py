"""Write screenshots of every screen of the console with a living fleet: `make console-shots`.

They are written to build/console-shots, for a person to look at: 1280 pixels wide in light and dark, and 390. Those that the
docs show go to docs/images.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from support.servers.running_stack import RunningStack

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "console-shots"
IN_DOCS = ("fleet", "plant-history")
SLUG = "demo"
VIEWS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
SIMULATION = (
    "--plants",
    "12",
    "--interval",
    "1",
    "--duration",
    "20",
    "--backfill",
    "2",
    "--backfill-interval",
    "120",
    "--faults",
    "bad-signature",
)


def screens(plant_id: str) -> dict[str, str]:
    """Return the path of each screen below the console by name."""
    plant = f"o/{SLUG}/plants/{plant_id}"
    return {
        "fleet": f"o/{SLUG}/fleet",
        "alerts": f"o/{SLUG}/alerts?status=%5B%22ACTIVE%22%2C%22ACKNOWLEDGED%22%2C%22RESOLVED%22%5D",
        "plant-live": f"{plant}/live",
        "plant-history": f"{plant}/history?last=24h",
        "plant-energy": f"{plant}/energy?period=day",
        "plant-messages": f"{plant}/messages",
    }


def simulate(stack: RunningStack, folder: Path) -> str:
    """Simulate a fleet with two days of history. Returns the id of one plant."""
    ledger = folder / "ledger.jsonl"
    options = (
        *SIMULATION,
        "--organization",
        SLUG,
        "--faults",
        "bad-signature",
        "--state",
        str(folder),
        "--ledger",
        str(ledger),
    )
    subprocess.run([sys.executable, "-m", "gridfleet", "simulate", *options], env=stack.environment, check=True, timeout=900)
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    return next(str(line["plantId"]) for line in lines if line["kind"] == "plant")


def log_in(page: Page, stack: RunningStack) -> None:
    """Log in as the first SuperAdmin."""
    page.goto("/console/")
    page.get_by_label("E-mail address").fill(stack.admin_email)
    page.get_by_label("Password").fill(stack.admin_password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "/fleet" in url)


def main() -> None:
    """Start the service, simulate a fleet, and write every screen in every view."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    (ROOT / "docs" / "images").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gridfleet-shots-") as name:
        folder = Path(name)
        stack = RunningStack(folder / "home").start()
        try:
            plant_id = simulate(stack, folder)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
                )
                for view, (width, colours) in VIEWS.items():
                    context = browser.new_context(
                        base_url=stack.base_url,
                        viewport={"width": width, "height": 844},
                        color_scheme="dark" if colours == "dark" else "light",
                        locale="en-GB",
                    )
                    page = context.new_page()
                    page.goto("/console/login")
                    page.get_by_role("heading", level=1).wait_for()
                    page.screenshot(path=TARGET / f"login-{view}.png")
                    log_in(page, stack)
                    for screen, path in screens(plant_id).items():
                        page.goto(f"/console/{path}")
                        page.wait_for_load_state("networkidle")
                        page.wait_for_timeout(500)
                        page.screenshot(path=TARGET / f"{screen}-{view}.png")
                        if view == "light" and screen in IN_DOCS:
                            page.screenshot(path=ROOT / "docs" / "images" / f"console-{screen}.png")
                    context.close()
                browser.close()
        finally:
            stack.destroy()
    sys.stdout.write(f"{TARGET}\n")


if __name__ == "__main__":
    main()
