"""From an organisation's empty page to a plant's first value, a command that the plant applies, and its revocation."""

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from playwright.sync_api import Browser, Page, expect

from gridfleet.sdk.plant import Command, DeviceEntry, Package, PlantClient, Snapshot
from support.clients.fleet_under_test import Fleet
from support.clients.watched_page import Watched, open_context
from support.servers.running_stack import RunningStack


@pytest.fixture
def watched(browser: Browser, stack: RunningStack, fleet: Fleet) -> Iterator[Watched]:
    context = open_context(browser, stack.base_url, height=900)
    made = Watched(context.new_page())
    page = made.page
    slug = fleet.call("GET", f"/organizations/{fleet.organization_id}")["slug"]
    page.goto(f"/console/o/{slug}/plants/new")
    page.get_by_label("E-mail address").fill(stack.admin_email)
    page.get_by_label("Password").fill(stack.admin_password)
    page.get_by_role("button", name="Log in").click()
    yield made
    made.check()
    context.close()


@contextmanager
def sending(package: Package, folder: Path) -> Iterator[None]:
    """Send values of INV1, BAT1 and BAT2 every half second and apply commands, until the end of the block."""
    stop = Event()

    async def obey(command: Command) -> None:
        """Apply every command."""

    async def send() -> None:
        # Playwright's calls block this module's thread, so the client has a thread and an event loop of its own.
        async with PlantClient(package, queue_path=folder / "queue", on_command=obey) as client:
            while not stop.is_set():
                batteries = DeviceEntry("BAT1", {"soc": 81}), DeviceEntry("BAT2", {"soc": 44, "colour": 7})
                devices = [DeviceEntry("INV1", {"active_power": 4.2}), *batteries]
                await client.send(Snapshot(time=datetime.now(UTC), devices=devices))
                await asyncio.sleep(0.5)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, send())
        try:
            yield
        finally:
            stop.set()
            running.result(60)


def register_device(page: Page, button: str, *, external_id: str | None, template: str) -> None:
    """Register a device in the dialog that a button opens."""
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    if external_id is not None:
        dialog.get_by_label("Name in the messages").fill(external_id)
        dialog.get_by_label("Name", exact=True).fill(external_id)
    dialog.get_by_label("Template").select_option(template)
    dialog.get_by_role("button", name="Register a device").click()
    expect(dialog).to_be_hidden()


def test_a_plant_is_onboarded_commanded_and_revoked(watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    page.get_by_label("Name").fill("Barn roof")
    page.get_by_label("Serial number").fill(f"SN-{tmp_path.name}")
    page.get_by_label("Login").select_option("Password")
    page.get_by_label("Time zone").fill("Europe/Vienna")
    watched.check_accessibility()
    page.get_by_role("button", name="Register").click()

    register_device(page, "Register a device", external_id="INV1", template="Gridfleet inverter")
    expect(page.get_by_role("row").filter(has_text="INV1")).to_contain_text("Gridfleet inverter")
    watched.check_accessibility()
    page.get_by_role("button", name="Continue").click()

    with page.expect_download() as download:
        page.get_by_role("button", name="Make credentials and save them").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    watched.check_accessibility()
    page.get_by_role("button", name="I have the file").click()
    expect(page.get_by_text("Waiting for the first message of Barn roof")).to_be_visible()
    watched.check_accessibility()

    program, *words = shlex.split(page.get_by_label("To try it without the plant’s software").input_value())
    assert (program, words) == ("gridfleet", ["send", file.name, "INV1.active_power=1"])
    printed = subprocess.check_output([sys.executable, "-m", "gridfleet", *words], cwd=tmp_path, text=True, timeout=60)
    assert printed == "Sent, and confirmed by the broker: INV1.active_power=1\n"
    expect(page.get_by_text("The first value has arrived.")).to_be_visible()

    with sending(Package.load(file), tmp_path):
        expect(page.get_by_text("devices that are not registered: BAT1, BAT2")).to_be_visible()
        watched.check_accessibility()
        page.get_by_role("link", name="Register them").click()
        expect(page.get_by_text("Fields in its messages: soc, colour")).to_be_visible()
        watched.check_accessibility()
        # A template reads all of its fields: no dialog asks for it.
        page.get_by_role("button", name="Register BAT1 as Gridfleet battery").click()
        expect(page.get_by_role("button", name="Register BAT2 as")).to_have_count(0)
        page.get_by_role("button", name="Register BAT2").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Template").locator("option:checked")).to_have_text("Gridfleet battery")
        expect(dialog.get_by_text("are not stored: colour")).to_be_visible()
        watched.check_accessibility()
        dialog.get_by_role("button", name="Register a device").click()
        expect(dialog).to_be_hidden()
        expect(page.get_by_text("Fields in its messages")).to_have_count(0)

        battery = page.get_by_role("row").filter(has_text="BAT1")
        expect(battery).to_contain_text("Gridfleet battery")
        battery.get_by_role("button", name="Send a command").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Action").select_option("Stop")
        watched.check_accessibility()
        dialog.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_role("article").first).to_contain_text("Applied by the plant")
        watched.check_accessibility()

    page.locator(".tabs").get_by_role("link", name="Credentials").click()
    page.get_by_role("button", name="Rotate the secret").click()
    expect(page.get_by_role("dialog").get_by_label("HMAC secret")).to_have_value(re.compile("^[0-9a-f]{64}$"))
    watched.check_accessibility()
    page.get_by_role("button", name="Close").click()

    suspend, reactivate = (page.get_by_role("button", name=name, exact=True) for name in ("Suspend", "Reactivate"))
    suspend.click()
    dialog = page.get_by_role("dialog", name="Suspend Barn roof?")
    expect(dialog).to_contain_text("What the plant sends is discarded for good until it is reactivated.")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Suspend").click()
    expect(dialog).to_have_count(0)
    reactivate.click()
    expect(suspend).to_be_visible()

    page.get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog", name="Revoke Barn roof?")
    expect(dialog.get_by_role("button", name="Revoke")).to_be_disabled()
    dialog.get_by_label("Type “Barn roof” to confirm").fill("Barn roof")
    watched.check_accessibility()
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("definition").filter(has_text="Decommissioned")).to_be_visible()
    expect(page.get_by_role("button", name="Rotate the secret")).to_be_hidden()


def test_a_page_that_is_loaded_again_after_the_credentials_were_made_leads_on(watched: Watched) -> None:
    page = watched.page
    page.get_by_label("Name").fill("Mill")
    page.get_by_label("Serial number").fill("SN-mill")
    page.get_by_label("Login").select_option("Password")
    page.get_by_role("button", name="Register").click()
    page.get_by_role("button", name="Continue").click()
    with page.expect_download() as made:
        page.get_by_role("button", name="Make credentials and save them").click()
    expect(page.get_by_role("button", name="I have the file")).to_be_visible()
    page.reload()
    expect(page.get_by_text("This plant has credentials already.")).to_be_visible()
    again = page.get_by_role("button", name="Save the file again")
    with page.expect_download() as repeated:
        again.click()
    assert (repeated.value.suggested_filename, repeated.value.path().read_bytes()) == (
        "SN-mill.json",
        made.value.path().read_bytes(),
    )
    expect(page.get_by_role("button", name="I have the file")).to_be_visible()
    page.reload()
    # The service returns it once more, not twice.
    watched.allowed.append("status of 400")
    again.click()
    expect(page.get_by_role("alert")).to_contain_text("can no longer be downloaded")
    expect(page.get_by_text("revoke this plant and register it again, with another serial number")).to_be_visible()
    watched.check_accessibility()
    expect(page.get_by_role("link", name="Credentials of the plant")).to_be_visible()
    expect(page.get_by_role("button", name="Make credentials and save them")).to_have_count(0)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Waiting for the first message of Mill")).to_be_visible()


def test_a_second_renewal_within_the_hour_is_confirmed(watched: Watched) -> None:
    """It ends the certificate that the plant may still use."""
    page = watched.page
    page.get_by_label("Name").fill("Tower")
    page.get_by_label("Serial number").fill("SN-tower")
    page.get_by_role("button", name="Register").click()
    page.get_by_role("button", name="Continue").click()
    with page.expect_download():
        page.get_by_role("button", name="Make credentials and save them").click()
    page.get_by_role("button", name="I have the file").click()
    expect(page.get_by_text("Waiting for the first message of Tower")).to_be_visible()
    page.get_by_role("link", name="Fleet", exact=True).first.click()
    page.get_by_role("link", name="Tower").click()
    page.locator(".tabs").get_by_role("link", name="Credentials").click()
    renew = page.get_by_role("button", name="Renew the certificate")
    renew.click()
    dialog = page.get_by_role("dialog")
    first = dialog.get_by_label("Certificate").input_value()
    page.get_by_role("button", name="Close").click()
    # The service says it, not the page, which may have been left.
    page.locator(".tabs").get_by_role("link", name="Devices").click()
    expect(renew).to_have_count(0)
    page.locator(".tabs").get_by_role("link", name="Credentials").click()
    renew.click()
    expect(dialog).to_contain_text("the one before is refused at once")
    watched.check_accessibility()
    dialog.get_by_label("Type “Tower” to confirm").fill("Tower")
    dialog.get_by_role("button", name="Renew the certificate").click()
    expect(dialog.get_by_label("Certificate")).not_to_have_value(first)
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_the_login_of_a_key_is_tested_at_the_broker(watched: Watched, fleet: Fleet) -> None:
    page = watched.page
    keys = {}
    for name, scope in (("Trader", "vcp:connect"), ("Reader", "plants:read")):
        created = fleet.call("POST", "/partner/api-keys", {"name": name, "partnerId": "acme", "scopes": [scope]})
        keys[name] = created["key"]
    page.get_by_role("link", name="Partners", exact=True).click()
    row = page.get_by_role("row").filter(has_text="Trader")
    expect(row).to_be_visible()
    expect(page.get_by_role("button", name="Test the login")).to_have_count(1)
    row.get_by_role("button", name="Test the login").click()
    dialog = page.get_by_role("dialog", name="Test the login of Trader")
    dialog.get_by_label("Key").fill(keys["Reader"])
    watched.check_accessibility()
    dialog.get_by_label("Key").press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("The login failed: this is not the text of the key")
    dialog.get_by_label("Key").fill(keys["Trader"])
    dialog.get_by_role("button", name="Test the login").click()
    expect(dialog.get_by_role("status")).to_have_text(re.compile(r"The login succeeded in \d+ ms\."))
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 844})
    watched.check_width(390)
