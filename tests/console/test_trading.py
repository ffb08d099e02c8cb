"""Trading: the ESM of an organisation, its sites, and one site with its schedule, its power and the commands of partners."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
import psycopg
import pytest
from playwright.sync_api import Page, expect
from psycopg.types.json import Jsonb

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.kernel.ids import new_id
from support.clients.console_data import add_values
from support.clients.console_user import ConsoleUser
from support.clients.watched_page import Watched
from support.servers.served import Served

HOUR = timedelta(hours=1)


@pytest.fixture
def administrator(user: Callable[..., ConsoleUser]) -> ConsoleUser:
    return user(role="ORG_ADMIN")


@pytest.fixture
def organization(database_url: str, administrator: ConsoleUser) -> UUID:
    with psycopg.connect(database_url) as db:
        row = db.execute("SELECT id FROM organization WHERE slug = %s", (administrator.slugs[0],)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def add_site(db: psycopg.Connection[tuple[object, ...]], organization: UUID, name: str) -> UUID:
    plant = new_id()
    db.execute(
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status, status, time_zone)"
        " VALUES (%s, %s, %s, %s, 'GATEWAY', 'TOKEN', 'ACTIVE', 'ONLINE', 'Europe/Prague')",
        (plant, organization, name, f"SN {name}"),
    )
    return plant


@pytest.fixture
def barn(database_url: str, organization: UUID) -> UUID:
    """Add a site with an override, a fallback, a schedule since two hours, and an earlier schedule; and a site without."""
    now = datetime.now(UTC)
    start = (now - HOUR / 4).replace(second=0, microsecond=0)
    earlier = [{"start": (start - 3 * HOUR).isoformat(), "durationSeconds": 7200, "powerKw": 3}]
    steps = [
        {"start": (start + number * HOUR).isoformat(), "durationSeconds": 3600, "powerKw": 5 - number} for number in range(3)
    ]
    with psycopg.connect(database_url) as db:
        plant = add_site(db, organization, "Barn")
        add_site(db, organization, "Mill")
        db.execute(
            "INSERT INTO vcp_site (plant_id, constraints, fallback_mode, fallback_after_seconds, override_mode,"
            " override_set_by, override_set_at, schedule_id, schedule_revision, schedule_active, opened_at)"
            " VALUES (%s, %s, 'BACKUP', 600, 'EMERGENCY_STOP', 'key', now(), 'day', 2, true, %s)",
            (plant, Jsonb({"importLimitKw": 1234.5, "socMinPct": 15.5}), now - 4 * HOUR),
        )
        for step in steps:
            begin = datetime.fromisoformat(step["start"])
            db.execute(
                "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw) VALUES (%s, %s, %s, %s)",
                (plant, begin, begin + HOUR, step["powerKw"]),
            )
        for age, kind, payload, status, reason in (
            (3 * HOUR, "SCHEDULE", {"scheduleId": "day", "revision": 1, "intervals": earlier}, "APPLIED", None),
            (HOUR / 2, "SCHEDULE", {"scheduleId": "day", "revision": 2, "intervals": steps}, "APPLIED", None),
            (HOUR / 4, "SITE_SETPOINT", {"powerKw": 99}, "REJECTED", "CONSTRAINT_VIOLATED"),
        ):
            db.execute(
                "INSERT INTO vcp_command (id, organization_id, api_key_id, plant_id, site_id, message_id, command_type,"
                " routing_key, payload, digest, claims_id, status, ack_status, rejection_reason, issued_at, created_at)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, 'x', %s, '', true, %s, %s, %s, now(), %s)",
                (
                    *(new_id(), organization, new_id(), plant, str(plant), str(new_id()), kind),
                    *(Jsonb(payload), status, status, reason, now - age),
                ),
            )
        # Applied for four hours: 5 kW from the grid.
        db.execute(
            "INSERT INTO plant_command (id, plant_id, type, instruction, status, requester_type, issued_at, expires_at,"
            " finished_at) VALUES (%s, %s, 'SITE_SETPOINT', %s, 'APPLIED', 'SYSTEM', %s, %s, %s)",
            (new_id(), plant, Jsonb({"powerKw": 5}), now - 4 * HOUR, now, now - 4 * HOUR),
        )
        db.execute(
            "INSERT INTO trading_config_change (organization_id, plant_id, request_code, validate_only, config_snapshot,"
            " requested_by, sent_at, responded_at) VALUES (%s, %s, %s, false, %s, %s, %s, %s)",
            (
                *(organization, plant, new_id()),
                Jsonb(
                    {
                        "version": 1,
                        "timeConfigs": [
                            {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 7, "socMin": 10, "socMax": 90}
                        ],
                    }
                ),
                *(new_id(), now - HOUR, now - HOUR),
            ),
        )
    return plant


def test_trading_is_configured_enabled_synced_and_disabled(
    watched: Watched, service: Served, administrator: ConsoleUser, organization: UUID
) -> None:
    page = watched.page
    sandbox = httpx.post(
        f"{service.url}/api/v1/svc-esm/admin/enable", params={"orgId": str(organization)}, headers=service.headers
    ).json()
    administrator.log_in(page)
    page.get_by_role("link", name="Trading", exact=True).click()
    esm = page.get_by_role("region", name="Energy market (ESM)")
    expect(esm).to_contain_text("not set")
    watched.allowed.append("status of 400")
    esm.get_by_role("button", name="Enable trading").click()
    expect(esm.get_by_role("alert")).to_contain_text("esmApiUrl")
    watched.check_accessibility()

    esm.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Energy market (ESM)")
    dialog.get_by_label("Address of the ESM").fill("http://10.0.0.1/esm")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("esmApiUrl")
    watched.check_accessibility()
    dialog.get_by_label("Address of the ESM").fill(sandbox["esmApiUrl"])
    dialog.get_by_label("Client id").fill(sandbox["clientId"])
    dialog.get_by_label("Client secret").fill(sandbox["clientSecret"])
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(esm).to_contain_text(sandbox["clientId"])
    esm.get_by_role("button", name="Change").click()
    address = dialog.get_by_label("Address of the ESM")
    address.fill("")
    dialog.get_by_role("button", name="Save").click()
    assert address.evaluate("field => field.validity.valueMissing"), "the API cannot remove it"
    dialog.get_by_role("button", name="Cancel").click()
    expect(esm).to_contain_text(sandbox["esmApiUrl"])
    esm.get_by_role("button", name="Enable trading").click()
    expect(esm).to_contain_text("Enabled")
    esm.get_by_role("button", name="Sync the plants now").click()
    expect(esm).to_contain_text("Plants updated")

    esm.get_by_role("button", name="Disable trading").click()
    confirm = page.get_by_role("dialog", name="Disable trading of Organisation 1?")
    expect(confirm.get_by_role("button", name="Disable trading")).to_be_disabled()
    confirm.get_by_label("Type “Organisation 1” to confirm").fill("Organisation 1")
    confirm.get_by_role("button", name="Disable trading").click()
    expect(esm).to_contain_text("Disabled")


def open_sites(page: Page, member: ConsoleUser) -> None:
    member.log_in(page)
    page.get_by_role("link", name="Trading", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="2 sites")).to_be_visible()


def test_sites_show_what_partners_have_set(watched: Watched, administrator: ConsoleUser, barn: UUID) -> None:
    page = watched.page
    open_sites(page, administrator)
    row = page.get_by_role("row").filter(has_text="SN Barn")
    for text in (
        "Online",
        "Emergency stop",
        "until it is released",
        "Backup",
        "when the partner is silent for 10 min",
        "5.00 kW",
    ):
        expect(row).to_contain_text(text)
    expect(row).to_contain_text("importing")
    watched.check_accessibility()
    page.get_by_label("State").select_option("Fallback active")
    expect(page.get_by_role("status").filter(has_text="0 sites")).to_be_visible()
    page.get_by_label("State").select_option("With a schedule")
    expect(page.get_by_role("row").filter(has_text="SN")).to_have_count(1)
    page.get_by_label("State").select_option("All")
    page.get_by_label("Search name or serial number").fill("mill")
    expect(page.get_by_role("row").filter(has_text="SN Mill")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="SN")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Search name or serial number")).to_have_value("mill")
    expect(page.get_by_role("row").filter(has_text="SN")).to_have_count(1)


def test_a_site_shows_its_schedule_then_and_now_its_power_and_its_commands(
    watched: Watched, administrator: ConsoleUser, barn: UUID
) -> None:
    page = watched.page
    open_sites(page, administrator)
    page.get_by_role("link", name="Barn").click()
    present = page.get_by_role("region", name="Set by partners")
    expect(present).to_contain_text("Emergency stop until it is released")
    expect(present).to_contain_text("1,234.5 kW")
    expect(present).to_contain_text("15.5 %")
    expect(present).to_contain_text("No other limit is set.")
    expect(present.get_by_role("definition").filter(has_text="–")).to_have_count(0)

    schedule = page.get_by_role("region", name="Schedule")
    expect(schedule).to_contain_text("day, revision 2")
    steps = schedule.get_by_role("table").first.get_by_role("row")
    expect(steps).to_have_count(4)
    expect(schedule.locator("[aria-current=true]")).to_contain_text("5.00 kW importing")
    expect(schedule).to_contain_text("7.00 kW charging")

    adherence = page.get_by_role("region", name="Ordered against delivered")
    expect(adherence.get_by_role("img")).to_be_visible()
    adherence.get_by_text("Values per quarter of an hour").click()
    expect(adherence.get_by_role("row").last).to_contain_text("5.00 kW importing")

    log = page.get_by_role("region", name="Commands of partners")
    refused = log.get_by_role("row").filter(has_text="Setpoint")
    expect(refused).to_contain_text("powerKw: 99")
    expect(refused).to_contain_text("Refused")
    expect(refused).to_contain_text("The command exceeds the limits of the site.")
    watched.check_accessibility()
    log.get_by_label("Command").select_option("Limits or fallback")
    expect(log).to_contain_text("No partner has sent a command of this kind.")
    log.get_by_label("Command").select_option("All")

    # Two hours ago, by the clocks of the plant.
    then = page.evaluate(
        "(time) => new Date(time).toLocaleString('sv-SE', {timeZone: 'Europe/Prague'}).replace(' ', 'T').slice(0, 16)",
        (datetime.now(UTC) - 2 * HOUR).isoformat(),
    )
    schedule.get_by_label("As it was at (Europe/Prague)").fill(then)
    expect(schedule).to_contain_text("day, revision 1")
    expect(steps).to_have_count(2)
    page.wait_for_url(lambda url: "at=" in url)
    page.reload()
    expect(schedule).to_contain_text("day, revision 1")
    schedule.get_by_role("button", name="Now").click()
    expect(schedule).to_contain_text("day, revision 2")
    page.set_viewport_size({"width": 390, "height": 800})
    expect(log.get_by_role("row")).to_have_count(4)
    watched.check_width(390)


def test_a_deviation_says_its_direction(watched: Watched, administrator: ConsoleUser, barn: UUID, database_url: str) -> None:
    page = watched.page
    quarter = timedelta(minutes=15)
    now = datetime.now(UTC)
    last = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    # 4 kW are taken from the grid, then 8 kW; 5 kW are ordered.
    counted = {last - 4 * quarter: 10.0, last - 3 * quarter: 11.0, last - 2 * quarter: 13.0}
    metrics = [Metric("energy_imported", "kWh", counter=True)]
    add_values(database_url, barn, "GRID", metrics, {time: [value] for time, value in counted.items()})
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %s", (barn,))
    administrator.log_in(page, f"/console/o/{administrator.slugs[0]}/plants/{barn}/trading")
    adherence = page.get_by_role("region", name="Ordered against delivered")
    adherence.get_by_text("Values per quarter of an hour").click()
    for deviation in ("1.00 kW towards export", "3.00 kW towards import"):
        expect(adherence.get_by_role("cell").filter(has_text=deviation)).to_have_count(1)
    watched.check_accessibility()


def test_the_time_of_a_schedule_can_be_typed(watched: Watched, administrator: ConsoleUser, barn: UUID) -> None:
    page = watched.page
    open_sites(page, administrator)
    page.get_by_role("link", name="Barn").click()
    schedule = page.get_by_role("region", name="Schedule")
    field = schedule.get_by_label("As it was at (Europe/Prague)")
    expect(schedule).to_contain_text("day, revision 2")
    field.focus()
    # Right whether the browser's language has the day or the month first, and 12 or 24 hours. Each digit takes effect at once.
    page.keyboard.type("101020250845A", delay=50)
    expect(field).to_have_value("2025-10-10T08:45")
    page.wait_for_url(lambda url: "at=2025-10-10T06%3A45" in url)
    expect(schedule).to_contain_text("No schedule is in force at this time.")
    # A time in the future is not shown, and the field returns to that which is.
    now = schedule.get_by_role("button", name="Now")
    now.focus()
    field.focus()
    page.keyboard.type("10102199", delay=50)
    expect(field).to_have_value("2199-10-10T08:45")
    now.focus()
    expect(field).to_have_value("2025-10-10T08:45")


def test_viewers_read_sites_and_change_nothing(watched: Watched, user: Callable[..., ConsoleUser], database_url: str) -> None:
    page, viewer = watched.page, user()
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    with psycopg.connect(database_url) as db:
        row = db.execute("SELECT id FROM organization WHERE slug = %s", viewer.slugs).fetchone()
        assert row is not None
        add_site(db, UUID(str(row[0])), "Hall")
    viewer.log_in(page)
    page.get_by_role("button", name="Menu", exact=True).click()
    page.get_by_role("link", name="Trading", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="1 site")).to_be_visible()  # the fleet has a link to the plant, too
    page.get_by_role("link", name="Hall").click()
    expect(page.get_by_role("region", name="Schedule")).to_contain_text("No schedule is in force at this time.")
    expect(page.get_by_text("No partner ordered power in this time.")).to_be_visible()
    expect(page.get_by_role("region", name="Set by partners")).to_contain_text("No limit is set.")
    watched.check_accessibility()
    watched.check_width(390)
    page.go_back()
    expect(page.get_by_role("region", name="Energy market (ESM)").get_by_role("button")).to_have_count(0)
    watched.check_accessibility()
    watched.check_width(390)
