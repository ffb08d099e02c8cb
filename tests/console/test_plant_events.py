"""What happened at a plant: its alerts and changes, and marks of alerts and commands on its charts."""

import csv
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import UUID

import httpx
import psycopg
from playwright.sync_api import Browser, expect

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.kernel.ids import new_id
from support.builders.alerting import ago
from support.clients.console_data import add_alert, add_history, add_system_templates, add_values
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched, open_context
from support.servers.served import Served

METRICS_OF_BATTERY = quote(json.dumps(["BAT1.soc", "BAT1.active_power", "BAT1.reactive_power"]))
User = Callable[..., ConsoleUser]
METRICS = (Metric("soc", "%"), Metric("active_power", "kW"), Metric("reactive_power", "kvar"))


def add_battery(database_url: str, slug: str, name: str) -> UUID:
    """Return a plant whose battery has 80 %, with an alert about 5 % of half an hour ago."""
    frames = {ago(60 * minute): [5.0 if minute == 30 else 80.0, -12.345, 12.345] for minute in range(180, 0, -1)}
    plant_id = add_history(database_url, slug, name, "BAT1", METRICS, frames)
    add_alert(database_url, plant_id, f"{name} is low")
    return plant_id


def add_command(database_url: str, plant_id: UUID) -> None:
    """Add a command to the battery of a plant, issued ten minutes ago."""
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO plant_command (id, plant_id, target, type, instruction, requester_type, issued_at, expires_at, due_at)"
            " VALUES (%s, %s, 'BAT1', 'DEVICE_COMMAND', %s, 'SYSTEM', %s, now() + interval '1 hour', now())",
            (new_id(), plant_id, '{"action": "stop"}', ago(600)),
        )


def test_a_plant_has_its_own_alerts_and_changes(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    administrator = user(role="ORG_ADMIN")
    slug = administrator.slugs[0]
    add_system_templates(database_url)
    plant_id = add_battery(database_url, slug, "Barn")
    add_battery(database_url, slug, "Mill")
    administrator.log_in(page, f"/console/o/{slug}/plants/{plant_id}")
    tabs = page.get_by_role("navigation", name="Screens of the plant")
    tabs.get_by_role("link", name="Alerts").click()
    expect(page.get_by_role("row").filter(has_text="below 10")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Plant", exact=True)).to_have_count(0)
    watched.check_accessibility()
    title = "BAT1: State of charge 5\u00a0%, below 10\u00a0%"
    page.get_by_role("checkbox", name=f"Choose: {title}").check()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("row").filter(has_text=title)).to_contain_text("Acknowledged Vera Viewer")
    trouble = page.locator(".facts").get_by_role("link")
    expect(trouble).to_have_text("Critical 1 alert")
    page.get_by_label("Status").select_option("Resolved")
    expect(page.get_by_text("No alert matches these filters.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"plants/.*/alerts\?status="))
    trouble.click()
    page.get_by_role("checkbox", name=f"Choose: {title}").check()
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("There are no open alerts.")).to_be_visible()
    expect(trouble).to_have_count(0)

    tabs.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("row").filter(has_text="alert.acknowledged")).to_contain_text("Vera Viewer")
    watched.check_accessibility()
    page.get_by_label("What was changed").select_option("Devices")
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)


def add_refusal(database_url: str, plant_id: UUID) -> None:
    """Refuse a message of a plant half an hour ago."""
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
            " VALUES (%s, %s, %s, 'v1/plants/x/telemetry', 'MALFORMED', 'the message is not JSON', 2)",
            (new_id(), plant_id, ago(1800)),
        )


def test_the_fleet_shows_which_plants_sent_refused_messages(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    barn, _ = (add_battery(database_url, member.slugs[0], name) for name in ("Barn", "Mill"))
    add_refusal(database_url, barn)
    member.log_in(page)
    tile = page.get_by_role("link", name="With refusals 1")
    # The mark of the state, without which nothing is wrong.
    expect(tile.locator("svg")).to_have_count(1)
    expect(page.get_by_role("link", name="Offline 0").locator("svg")).to_have_count(0)
    tile.click()
    expect(tile).to_have_attribute("aria-current", "page")
    rows = page.get_by_role("region", name="Plants").get_by_role("row")
    expect(rows).to_have_count(2)
    page.get_by_text("More filters: 1 set").click()
    expect(page.get_by_label("Messages")).to_have_value("REFUSED")
    watched.check_accessibility()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET latitude = 50, longitude = 14")
    page.get_by_role("button", name="Map").click()
    expect(page.get_by_text("1 plant on the map")).to_be_visible()
    page.get_by_role("button", name="List", exact=True).click()
    rows.get_by_role("link", name="Messages refused").click()
    expect(page.get_by_role("article")).to_contain_text("the message is not JSON")
    expect(page.locator(".facts").get_by_role("link")).to_have_text(["Critical 1 alert", "Messages refused"])


def test_operators_see_no_changes_of_a_plant(watched: Watched, user: User, database_url: str) -> None:
    operator = user(role="OPERATOR")
    plant_id = add_battery(database_url, operator.slugs[0], "Barn")
    operator.log_in(watched.page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}")
    tabs = watched.page.get_by_role("navigation", name="Screens of the plant")
    expect(tabs.get_by_role("link", name="Alerts")).to_be_visible()
    expect(tabs.get_by_role("link", name="Changes")).to_have_count(0)


def test_a_plant_is_changed_and_deleted(watched: Watched, user: User, database_url: str) -> None:
    page, made = watched.page, user(role="ORG_ADMIN")
    [plant] = add_plants(database_url, made.slugs[0], "Winery")
    made.log_in(page, f"/console/o/{made.slugs[0]}/plants/{plant}/live")
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change Winery")
    dialog.get_by_label("Name", exact=True).fill("Old winery")
    dialog.get_by_label("Latitude in degrees").fill("48.2")
    dialog.get_by_label("Time zone").fill("Europe/Wien")
    watched.check_accessibility()
    watched.allowed.append("status of 400")
    dialog.get_by_role("button", name="Save").click()
    refusal = dialog.get_by_role("alert")
    expect(refusal).to_contain_text("timeZone")
    dialog.get_by_label("Time zone").fill("Europe/Vienna")
    dialog.get_by_role("button", name="Save").click()
    expect(refusal).to_contain_text("longitude")
    dialog.get_by_label("Longitude in degrees").fill("16.4")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Old winery")
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change Old winery")
    expect(dialog.get_by_label("Longitude in degrees")).to_have_value("16.4")
    dialog.get_by_role("button", name="Cancel").click()

    page.get_by_role("button", name="Delete", exact=True).click()
    confirm = page.get_by_role("dialog", name="Delete Old winery?")
    watched.check_accessibility()
    confirm.get_by_label("to confirm").fill("Old winery")
    # The page of the plant may ask for it once more before the list of plants is shown.
    watched.allowed.append("status of 404")
    confirm.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    expect(page.get_by_text("Old winery")).to_have_count(0)


def test_a_change_by_another_user_stays_when_a_form_is_saved(
    watched: Watched, user: User, service: Served, database_url: str
) -> None:
    page, made = watched.page, user(role="OPERATOR")
    [plant] = add_plants(database_url, made.slugs[0], "Winery")
    made.log_in(page, f"/console/o/{made.slugs[0]}/plants/{plant}/live")
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog")
    with psycopg.connect(database_url) as db:
        [organization_id] = db.execute("SELECT organization_id FROM plant WHERE id = %s", (plant,)).fetchone() or [None]
    headers = {**service.headers, "x-org-id": str(organization_id)}
    changes = {"name": "Old winery", "tag": "south"}
    httpx.patch(f"{service.url}/api/v1/plants/{plant}", headers=headers, json=changes).raise_for_status()
    # The page shows the change within 30 s, while the form is open.
    expect(page.locator("h1")).to_have_text("Old winery", timeout=60_000)
    dialog.get_by_label("Serial number").fill("W-2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    with psycopg.connect(database_url) as db:
        found = db.execute("SELECT name, own_tag, serial_number FROM plant WHERE id = %s", (plant,)).fetchone()
    assert found == ("Old winery", "south", "W-2")


def test_a_form_keeps_a_template_that_is_newer_than_its_list(watched: Watched, user: User, database_url: str) -> None:
    watched.follow_requests()
    page, made = watched.page, user(role="OPERATOR")
    [plant] = add_plants(database_url, made.slugs[0], "Winery")
    made.log_in(page, f"/console/o/{made.slugs[0]}/templates")
    watched.wait_until_loaded()
    template_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
            " VALUES (%s, 'Wine cellar', 'METER', 'PLANT', 1, '[]', '[]')",
            (template_id,),
        )
        db.execute("UPDATE plant SET template_id = %s WHERE id = %s", (template_id, plant))
    # Within the page, which keeps the list that it has loaded.
    page.evaluate("to => history.pushState({}, '', to)", f"/console/o/{made.slugs[0]}/plants/{plant}/live")
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Serial number").fill("W-2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    with psycopg.connect(database_url) as db:
        assert db.execute("SELECT serial_number, template_id FROM plant WHERE id = %s", (plant,)).fetchone() == (
            "W-2",
            template_id,
        )


def test_every_command_of_a_plant_can_be_seen(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    [plant_id] = add_plants(database_url, member.slugs[0], "Winery")
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}")
    page.get_by_role("link", name="Commands", exact=True).click()
    expect(page.get_by_text("No command was issued")).to_be_visible()
    # A viewer can send none.
    expect(page.get_by_role("link", name="Send one to a device")).to_have_count(0)
    for _ in range(51):
        add_command(database_url, UUID(plant_id))
    page.reload()
    commands = page.get_by_role("article").filter(has=page.get_by_role("heading", name="BAT1: stop"))
    expect(commands).to_have_count(50)
    watched.check_accessibility()
    for time in commands.first.locator("time").all():
        expect(time).to_have_attribute("title", re.compile(r"UTC$"))
    page.get_by_role("button", name="Show more").click()
    expect(commands).to_have_count(51)


def test_the_history_marks_alerts_and_commands(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    viewer = user()
    slug = viewer.slugs[0]
    plant_id = add_battery(database_url, slug, "Barn")
    add_command(database_url, plant_id)
    viewer.log_in(page, f"/console/o/{slug}/plants/{plant_id}/history?last=24h&metrics={METRICS_OF_BATTERY}")
    events = page.get_by_role("region", name="Alerts and commands")
    # The newest first.
    expect(events.get_by_role("rowheader")).to_have_text(["Command BAT1: stop", "BAT1: soc 5\u00a0%, below 10\u00a0%"])
    expect(page.locator(".event.alert")).to_have_attribute("title", re.compile("BAT1: soc 5.%, below 10.%$"))
    expect(page.locator(".event.command")).to_have_attribute("title", re.compile("BAT1: stop$"))
    places = [page.locator(f".event.{kind}").bounding_box() for kind in ("alert", "command")]
    chart = page.get_by_role("img", name=re.compile("^Chart of BAT1: soc, ")).bounding_box()
    assert places[0] is not None
    assert places[1] is not None
    assert chart is not None
    assert chart["x"] < places[0]["x"] < places[1]["x"] < chart["x"] + chart["width"]
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)


def test_a_finger_zooms_the_history(browser: Browser, service: Served, user: User, database_url: str) -> None:
    member = user()
    plant_id = add_battery(database_url, member.slugs[0], "Winery")
    context = open_context(browser, service.url, width=390, height=844, has_touch=True, is_mobile=True)
    watched = Watched(context.new_page())
    page = watched.page
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/history?last=1h")
    # The chart is drawn again when the metrics and the zone of the plant are known.
    page.wait_for_load_state("networkidle")
    plot = page.locator(".chart .u-over")
    plot.scroll_into_view_if_needed()
    place = plot.bounding_box()
    assert place is not None
    touched = context.new_cdp_session(page)

    def touch(kind: str, *points: float) -> None:
        at = [{"x": place["x"] + point * place["width"], "y": place["y"] + 60} for point in points]
        touched.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", 0.25)
    for step in range(1, 11):
        touch("touchMove", 0.25 + 0.05 * step)
    touch("touchEnd")
    expect(page).to_have_url(re.compile("from=.*to="))
    shown = dict(parse_qsl(urlsplit(page.url).query))
    width = datetime.fromisoformat(shown["to"]) - datetime.fromisoformat(shown["from"])
    assert timedelta(minutes=20) < width < timedelta(minutes=40)
    watched.check()
    context.close()


def test_an_alert_is_shown_with_its_moment_and_resolved(watched: Watched, user: User, database_url: str) -> None:
    page = watched.page
    operator = user(role="OPERATOR")
    slug = operator.slugs[0]
    add_battery(database_url, slug, "Barn")
    operator.log_in(page, f"/console/o/{slug}/alerts")
    page.get_by_role("link", name="BAT1: soc 5\u00a0%, below 10\u00a0%").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("BAT1: soc 5\u00a0%, below 10\u00a0% · Barn")
    expect(page.get_by_text("BAT1: soc below 10\u00a0%")).to_be_visible()
    expect(page.get_by_role("img", name="Chart of BAT1: soc over time")).to_be_visible()
    expect(page.get_by_role("heading", level=2)).to_have_text("BAT1: soc, from an hour before until now")
    expect(page.locator(".event.alert.CRITICAL")).to_have_text(["Measured", "Raised"])
    expect(page.locator(".level")).to_have_text("Threshold 10\u00a0%")
    for time in page.get_by_role("definition").locator("time").all():
        expect(time).to_have_attribute("title", re.compile("UTC$"), timeout=2_000)
    watched.check_accessibility()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("definition").filter(has_text="Vera Viewer")).to_be_visible()
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_role("button", name="Resolve")).to_have_count(0)
    page.get_by_role("link", name="Open in the history").click()
    expect(page).to_have_url(re.compile("from=.*metrics="))
    expect(page.locator(".event.alert")).to_have_count(1)


def test_every_refused_message_can_be_seen_and_each_cause_is_one_entry(watched: Watched, user: User, database_url: str) -> None:
    page, viewer = watched.page, user()
    [plant] = add_plants(database_url, viewer.slugs[0], "Barn")
    with psycopg.connect(database_url) as db:
        for age in range(101):
            reason = "SIGNATURE_INVALID" if age in (1, 100) else "TIMESTAMP_OUT_OF_WINDOW"
            db.execute(
                "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
                " VALUES (%s, %s, now() - %s * interval '1 minute', 'v1/plants/x/telemetry', %s, %s, 100)",
                (new_id(), plant, age, reason, f"sentAt: is {400 - age} s behind"),
            )
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/plants/{plant}/messages")
    entries = page.get_by_role("article")
    expect(entries).to_contain_text(["99 messages on this page, the newest", "1 message on this page, 1 minute ago"])
    expect(entries.first).to_contain_text("sentAt: is 400 s behind")
    entries.first.get_by_text("Technical details").click()
    expect(entries.first.get_by_role("row")).to_have_count(100)
    watched.check_accessibility()
    page.get_by_role("button", name="Next page").click()
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("The signature is wrong")
    page.reload()
    expect(page.get_by_text("Page 2 of 2")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    entries.get_by_role("link", name="Credentials of the plant").click()
    expect(page).to_have_url(re.compile("/credentials$"))


def test_a_range_of_any_past_is_chosen_by_its_times(
    watched: Watched, user: Callable[..., ConsoleUser], database_url: str
) -> None:
    page, viewer = watched.page, user()
    slug = viewer.slugs[0]
    start = datetime(2026, 3, 28, 22, tzinfo=UTC)
    frames = {start + timedelta(minutes=at): [float(at)] for at in range(0, 240, 5)}
    plant_id = add_history(database_url, slug, "Barn", "BAT1", [Metric("soc", "%")], frames)
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET time_zone = 'Europe/Berlin'")
    # Of a link that was cut or edited, what is no range is left out.
    viewer.log_in(page, f"/console/o/{slug}/plants/{plant_id}/history?from=2026-03-29T00:00:00Z&to=2026-03-28T00:00:00Z")
    expect(page.get_by_role("button", name="24 hours")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("Times in Europe/Berlin.")).to_be_visible()
    page.get_by_text("Other times").press("Enter")
    begin, end = page.get_by_label("From (Europe/Berlin)"), page.get_by_label("Until (Europe/Berlin)")
    begin.fill("2026-03-29T00:00")
    end.fill("2026-03-28T06:00")
    page.get_by_role("button", name="Show", exact=True).press("Enter")
    assert "later" in end.evaluate("field => field.validationMessage")
    end.fill("2026-03-29T03:00")
    watched.check_accessibility()
    page.get_by_role("button", name="Show", exact=True).press("Enter")
    # The clocks are put forward at two: the range has two hours.
    expect(page).to_have_url(re.compile(r"from=2026-03-28T23%3A00%3A00.000Z&to=2026-03-29T01%3A00%3A00.000Z"))
    expect(page.get_by_role("row").filter(has_text="BAT1: soc").get_by_role("cell").first).to_have_text("60 %")
    expect(page.locator("summary").filter(has_text="29 Mar 2026, 00:00:00")).to_be_visible()
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("summary").filter(has_text="29 Mar 2026").click()
    watched.check_width(390)
    page.get_by_role("button", name="7 days").click()
    expect(page.get_by_text("Other times")).to_be_visible()


def test_a_link_keeps_the_time_zone_in_which_times_are_shown(
    browser: Browser, service: Served, user: User, database_url: str
) -> None:
    member = user()
    start = datetime(2026, 3, 28, 23, tzinfo=UTC)
    frames = {start + timedelta(minutes=at): [float(at)] for at in range(0, 120, 5)}
    plant_id = add_history(database_url, member.slugs[0], "Barn", "BAT1", [Metric("soc", "%")], frames)
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET time_zone = 'Europe/Berlin'")
    context = open_context(browser, service.url, timezone_id="America/New_York")
    watched = Watched(context.new_page())
    page = watched.page
    path = f"/console/o/{member.slugs[0]}/plants/{plant_id}/history?from=2026-03-28T23:00:00Z&to=2026-03-29T01:00:00Z"
    # What is no zone is ignored.
    member.log_in(page, f"{path}&timeZone=Mars/Base")
    expect(page.get_by_text("Times in Europe/Berlin.")).to_be_visible()
    zone = page.get_by_label("Times in")
    expect(zone.locator("option")).to_have_text(
        ["The plant's zone (Europe/Berlin)", "UTC", "This browser's zone (America/New_York)"]
    )
    expect(page.locator("summary").filter(has_text="29 Mar 2026, 00:00:00")).to_be_visible()
    zone.select_option("UTC")
    expect(page).to_have_url(re.compile("timeZone=UTC"))
    page.reload()
    expect(page.get_by_text("Times in UTC.")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export as CSV").click()
    rows = list(csv.DictReader(saved.value.path().read_text("utf-8-sig").splitlines()))
    assert rows[0]["time (UTC)"] == "2026-03-28 23:00:00"
    page.locator("summary").filter(has_text="28 Mar 2026, 23:00:00 UTC").click()
    expect(page.get_by_label("From (UTC)")).to_have_value("2026-03-28T23:00")
    watched.check_accessibility()

    page.get_by_role("link", name="Energy").click()
    expect(page.get_by_text("Days begin in the time zone UTC.")).to_be_visible()
    with page.expect_request(re.compile(r"/energy\?.*timeZone=America%2FNew_York")):
        page.get_by_label("Times in").select_option("America/New_York")
    expect(page.get_by_text("Days begin in the time zone America/New_York.")).to_be_visible()
    watched.check_accessibility()
    page.get_by_label("Times in").select_option("")
    expect(page.get_by_text("Days begin in the time zone Europe/Berlin.")).to_be_visible()
    expect(page).not_to_have_url(re.compile("timeZone"))
    # A zone of a link that is none of these is offered as well.
    page.goto(f"{path}&timeZone=Asia/Tokyo")
    expect(page.get_by_label("Times in").locator("option:checked")).to_have_text("Asia/Tokyo")
    page.set_viewport_size({"width": 390, "height": 844})
    watched.check_width(390)
    watched.check()
    context.close()


def test_averages_of_days_say_where_these_days_begin(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    start = datetime(2026, 3, 1, tzinfo=UTC)
    frames = {start + timedelta(hours=at): [float(at)] for at in range(240)}
    plant_id = add_history(database_url, member.slugs[0], "Barn", "BAT1", [Metric("soc", "%")], frames)
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET time_zone = 'Pacific/Auckland'")
    path = f"/console/o/{member.slugs[0]}/plants/{plant_id}/history?from=2026-03-01T00:00:00Z&to=2026-03-10T00:00:00Z"
    member.log_in(page, f"{path}&bucket=1 day")
    note = page.get_by_text("each of these days begins at midnight UTC")
    expect(note).to_be_visible()
    watched.check_accessibility()
    page.get_by_label("Times in").select_option("UTC")
    expect(page.get_by_text("Averages of 1 day")).to_contain_text("Times in UTC.")
    expect(note).to_have_count(0)
    page.get_by_label("Times in").select_option("")
    page.get_by_label("Averages of").select_option("1 hour")
    expect(page.get_by_text("Averages of 1 hour")).to_contain_text("Times in Pacific/Auckland.")
    expect(note).to_have_count(0)


def add_energy(database_url: str, plant_id: str, hours: Mapping[datetime, int]) -> None:
    """Store that a plant produced this many kWh in each quarter of these hours, and fed a half of it into the grid."""
    with psycopg.connect(database_url) as db:
        for hour, energy in hours.items():
            quarters = [energy * 1_000_000] * 4
            halves = [energy * 500_000] * 4
            db.execute(
                "INSERT INTO plant_energy (plant_id, hour, energies, falls) VALUES (%s, %s, %s, false)",
                (plant_id, hour, [*quarters, *[0] * 4, *halves, *[None] * 8]),
            )


def test_energy_is_compared_with_the_year_before(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    [plant_id] = add_plants(database_url, member.slugs[0], "Winery")
    days = {datetime(2023, 2, 28, tzinfo=UTC): 2, datetime(2024, 2, 28, tzinfo=UTC): 1, datetime(2024, 2, 29, tzinfo=UTC): 1}
    hours = {day + timedelta(hours=hour): energy for day, energy in days.items() for hour in range(9, 15)}
    add_energy(database_url, plant_id, hours)
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/energy?date=2024-02-29")
    expect(page.get_by_role("img", name=re.compile("now and a year before$"))).to_be_visible()
    words = page.get_by_text(re.compile("Pale bars with an outline: a year before, Tuesday,? 28 February 2023"))
    expect(words).to_be_visible()
    expect(page.get_by_text("The year before had no 29 February. It is compared with 28 February.")).to_be_visible()
    outlined = page.locator("rect[stroke]").filter(has=page.locator("title", has_text="10:00 · Produced · A year before"))
    expect(outlined).to_have_text("10:00 · Produced · A year before: 8.00\u00a0kWh")
    produced = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Produced", exact=True))
    expect(produced.get_by_role("cell")).to_have_text(["24.0\u00a0kWh", "48.0\u00a0kWh"])
    page.get_by_text("Values per hour").click()
    ten = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="10:00", exact=True))
    expect(page.get_by_role("columnheader", name="Produced: A year before")).to_be_visible()
    expect(ten.get_by_role("cell").nth(0)).to_have_text("4.00\u00a0kWh")
    expect(ten.get_by_role("cell").nth(1)).to_have_text("8.00\u00a0kWh")
    watched.check_accessibility()
    page.get_by_role("button", name="Earlier").click()
    expect(page.get_by_text("no 29 February")).to_have_count(0)
    expect(words).to_be_visible()
    page.get_by_role("button", name="Month").click()
    expect(page.get_by_text("a year before, February 2023.")).to_be_visible()
    former = page.locator("rect[stroke] title").filter(has_text="Produced")
    expect(former.filter(has_text=re.compile("^28 · "))).to_have_text("28 · Produced · A year before: 48.0\u00a0kWh")
    expect(former.filter(has_text=re.compile("^29 · "))).to_have_text("29 · Produced · A year before: –")
    # March has no values of the year before.
    page.get_by_role("button", name="Later").click()
    expect(page.get_by_text("March 2024")).to_be_visible()
    expect(page.locator("rect[stroke]")).to_have_count(0)
    expect(page.get_by_text("Pale bars")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="A year before")).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Earlier").click()
    expect(page.get_by_text("a year before, February 2023.")).to_be_visible()
    watched.check_width(390)


def test_sums_until_now_are_not_taken_for_those_of_a_whole_period(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    [plant_id] = add_plants(database_url, member.slugs[0], "Winery")
    year = datetime.now(UTC).year
    add_energy(database_url, plant_id, {datetime(year - before, 1, 1, 10, tzinfo=UTC): before + 1 for before in range(3)})
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/energy?period=year")
    words = page.get_by_text("its sums until now stand beside those of the whole period a year before.")
    expect(words).to_be_visible()
    page.get_by_role("button", name="Earlier").click()
    expect(page.get_by_text(f"a year before, {year - 2}.")).to_be_visible()
    expect(words).to_have_count(0)


def test_the_energy_flow_has_the_day_of_the_plant(watched: Watched, user: User, database_url: str) -> None:
    """The count in the list of the fleet is of the organisation's day, and lacks what came late in this hour."""
    page, member = watched.page, user()
    plant_id = add_battery(database_url, member.slugs[0], "Barn")
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    # It is noon there: today has the first energy, and yesterday the second.
    zone = f"Etc/GMT{hour.hour - 12:+d}"
    add_energy(database_url, str(plant_id), {hour - timedelta(hours=10): 3, hour - timedelta(hours=14): 5})
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET time_zone = %s WHERE id = %s", (zone, plant_id))
        db.execute(
            "INSERT INTO plant_power (plant_id, measured_at, pv_kw, energy_day, produced_kwh, imported_kwh, exported_kwh,"
            " charged_kwh, discharged_kwh) VALUES (%s, now(), 1, (now() AT TIME ZONE 'UTC')::date, 1, 0, 0, 0, 0)",
            (plant_id,),
        )
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/live")
    expect(page.get_by_role("heading", name="Today", exact=True)).to_be_visible()
    produced = page.locator("dl div").filter(has_text="Produced")
    expect(produced).to_contain_text("12.0\u00a0kWh")
    watched.check_accessibility()


def test_a_chart_has_at_most_two_units_and_says_when_it_has_no_metric(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    plant_id = add_battery(database_url, member.slugs[0], "Barn")
    history = f"/console/o/{member.slugs[0]}/plants/{plant_id}/history?last=24h"
    member.log_in(page, f"{history}&metrics={METRICS_OF_BATTERY}")
    # A link may name more.
    expect(page.get_by_role("img", name="Chart of BAT1: soc, BAT1: active_power over time")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="reactive_power")).to_contain_text("12.35")
    expect(page.get_by_text("Metrics without a colour have another one and are not drawn.")).to_be_visible()
    page.get_by_text("3 metrics").click()
    page.get_by_role("checkbox", name=re.compile("reactive_power")).uncheck()
    expect(page.get_by_role("checkbox", name=re.compile("reactive_power"))).to_be_disabled()
    expect(page.get_by_text("A chart has at most 6 metrics, and at most 2 units.")).to_be_visible()
    expect(page.get_by_text("Metrics without a colour")).to_have_count(0)
    watched.check_accessibility()
    page.get_by_role("checkbox", name=re.compile("soc")).uncheck()
    page.get_by_role("checkbox", name=re.compile(" active_power")).uncheck()
    expect(page.get_by_role("heading", name="No metric is chosen")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Chart of"))).to_have_count(0)
    expect(page.get_by_role("button", name="Export as CSV")).to_have_count(0)
    watched.check_accessibility()
    page.get_by_role("checkbox", name=re.compile("reactive_power")).check()
    expect(page.get_by_role("img", name="Chart of BAT1: reactive_power over time")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    watched.check_width(390)


def test_the_history_of_a_plant_without_values_says_so(watched: Watched, user: User, database_url: str) -> None:
    member = user()
    [plant_id] = add_plants(database_url, member.slugs[0], "Winery")
    member.log_in(watched.page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/history")
    expect(watched.page.get_by_role("heading", name="No values yet")).to_be_visible()
    watched.check_accessibility()


def test_the_sign_of_a_power_is_a_word(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    add_system_templates(database_url)
    plant_id = add_battery(database_url, member.slugs[0], "Barn")
    meter = [Metric("active_power", "kW"), Metric("fault", ""), Metric("warning", "")]
    add_values(database_url, plant_id, "GRID", meter, {ago(60): [3.5, 0.0, 1.0]})
    with psycopg.connect(database_url) as db:
        for device, template in (("BAT1", "Gridfleet battery"), ("GRID", "Gridfleet meter")):
            db.execute(
                "UPDATE sub_device SET template_id = (SELECT id FROM device_template WHERE name = %s)"
                " WHERE plant_id = %s AND external_id = %s",
                (template, plant_id, device),
            )
    member.log_in(page, f"/console/o/{member.slugs[0]}/plants/{plant_id}/live")
    expect(page.get_by_role("cell", name="12.3 kW discharging", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name="3.5 kW importing", exact=True)).to_be_visible()
    # What is wrong comes first, with a shape.
    rows = page.locator("section").filter(has=page.get_by_role("heading", name="GRID")).locator("tbody tr")
    expect(rows).to_have_text(["Warningyes", re.compile("^Active power"), "Faultno"])
    expect(rows.locator("svg")).to_have_count(1)
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 844})
    watched.check_width(390)
    # Beside its minimum and maximum, a number keeps its sign.
    page.get_by_role("link", name="History").click()
    power = page.get_by_role("row").filter(has_text="Active power").filter(has_text="discharging")
    expect(power.get_by_role("cell")).to_have_text(["-12.3 kW discharging"] * 3)
    watched.check_width(390)
