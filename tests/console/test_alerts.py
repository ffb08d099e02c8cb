"""The alerts of all plants: filters, and several that are acknowledged or resolved at once."""

import re
from collections.abc import Callable

import psycopg
from playwright.sync_api import expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


def add_alerts(database_url: str, slug: str, severities: list[str]) -> None:
    """Add a plant with an active alert of each severity, whose message names it, and one that is resolved."""
    with psycopg.connect(database_url) as db:
        plant = new_id()
        db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
            " SELECT %s, id, 'Roof', %s, 'GATEWAY', 'PASSWORD' FROM organization WHERE slug = %s",
            (plant, str(plant), slug),
        )
        for severity, status in [*((severity, "ACTIVE") for severity in severities), ("INFO", "RESOLVED")]:
            db.execute(
                "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at)"
                " SELECT %s, organization_id, id, %s, %s, %s, 'soc', 5, now() FROM plant WHERE id = %s",
                (new_id(), severity, status, f"Message of {severity}", plant),
            )


def test_a_change_of_a_plant_does_not_read_its_name_again(watched: Watched, user: User, database_url: str) -> None:
    """Each message of the plant would read it, on every page with its name."""
    member = user()
    [plant] = add_plants(database_url, member.slugs[0], "Roof")
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO alert_rule (id, organization_id, plant_id, name, metric, condition, threshold, severity,"
            " cooldown_minutes, enabled, for_seconds, auto_resolve) SELECT gen_random_uuid(), organization_id, id,"
            " 'Low', 'soc', 'LT', 5, 'INFO', 15, true, 0, false FROM plant WHERE id = %s",
            (plant,),
        )
    page = watched.page
    read: list[str] = []
    page.on("request", lambda request: read.append(request.url) if request.url.endswith(f"/api/v1/plants/{plant}") else None)
    member.log_in(page, f"/console/o/{member.slugs[0]}/rules")
    expect(page.get_by_role("link", name="Roof")).to_be_visible()
    page.wait_for_timeout(2_000)
    assert len(read) == 1
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET status = 'ONLINE' WHERE id = %s", (plant,))
    page.wait_for_timeout(3_000)
    assert len(read) == 1


def test_several_alerts_are_acknowledged_and_resolved(watched: Watched, user: User, database_url: str) -> None:
    operator = user(role="OPERATOR")
    add_alerts(database_url, operator.slugs[0], ["WARNING", "CRITICAL", "EMERGENCY"])
    page = watched.page
    operator.log_in(page)
    page.get_by_role("link", name="Alerts", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Alerts")
    rows = page.get_by_role("row").filter(has_text="Roof")
    expect(rows).to_have_count(3)
    watched.check_accessibility()

    page.get_by_role("checkbox", name="Choose all alerts of this page").check()
    expect(page.get_by_text("3 chosen")).to_be_visible()
    # Filters hide two of them: what is not shown is not changed.
    page.get_by_role("checkbox", name="Critical", exact=True).check()
    expect(rows).to_have_count(1)
    expect(page.get_by_text("1 chosen")).to_be_visible()
    page.get_by_role("button", name="Acknowledge").click()
    expect(rows).to_contain_text("Acknowledged Vera Viewer")
    page.get_by_role("checkbox", name="Critical", exact=True).uncheck()
    expect(rows.filter(has_text="Acknowledged")).to_have_count(1)
    expect(rows.filter(has_text="Active")).to_have_count(2)

    page.get_by_role("checkbox", name="Choose: Message of EMERGENCY").check()
    page.get_by_role("button", name="Resolve").click()
    expect(rows).to_have_count(2)
    page.get_by_label("Status").select_option("Resolved")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="EMERGENCY")).to_contain_text("Vera Viewer")
    page.reload()
    expect(rows).to_have_count(2)
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    watched.check_accessibility()


def test_all_alerts_that_match_are_changed_at_once(watched: Watched, user: User, database_url: str) -> None:
    """After an outage, an operator acknowledges hundreds of alerts but one."""
    watched.follow_requests()
    page, operator = watched.page, user(role="OPERATOR")
    add_alerts(database_url, operator.slugs[0], ["WARNING"] * 620 + ["CRITICAL"] * 3)
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/alerts?severity=%5B%22WARNING%22%5D")
    expect(page.get_by_text("620 alerts", exact=True)).to_be_visible()
    page.get_by_role("checkbox", name="Choose all alerts of this page").check()
    expect(page.get_by_text("50 chosen")).to_be_visible()
    with watched.held("**/api/v1/alerts?*page=2*"):
        page.get_by_role("button", name="Choose all 620 alerts that match").click()
        # Those of a filter that was left meanwhile are not chosen among what is shown now.
        page.get_by_role("checkbox", name="Critical", exact=True).check()
        expect(page.get_by_text("623 alerts", exact=True)).to_be_visible()
    watched.wait_until_loaded()
    expect(page.get_by_text("620 chosen")).to_have_count(0)
    page.reload()
    page.get_by_role("checkbox", name="Critical", exact=True).uncheck()
    # A choice ends with the alerts of the former filter.
    expect(page.get_by_text("620 alerts", exact=True)).to_be_visible()
    page.get_by_role("checkbox", name="Choose all alerts of this page").check()
    page.get_by_role("button", name="Choose all 620 alerts that match").click()
    expect(page.get_by_text("620 chosen")).to_be_visible()
    expect(page.get_by_role("button", name="Acknowledge")).to_be_focused()
    watched.check_accessibility()
    first = page.get_by_role("link", name="Message of WARNING").first
    former = first.get_attribute("href")
    assert former is not None
    page.get_by_role("button", name="Next page").click()
    # Until the next page is loaded, the former one is shown, and its first alert would be left out too.
    expect(first).not_to_have_attribute("href", former)
    page.get_by_role("checkbox", name="Choose: Message of WARNING").first.uncheck()
    expect(page.get_by_text("619 chosen")).to_be_visible()

    page.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("chosen")).to_have_count(0)
    with psycopg.connect(database_url) as db:
        found = db.execute(
            "SELECT severity, status, count(*) FROM alert a JOIN organization o ON o.id = a.organization_id"
            " WHERE slug = %s GROUP BY 1, 2 ORDER BY 1, 2",
            (operator.slugs[0],),
        ).fetchall()
    assert found == [
        ("CRITICAL", "ACTIVE", 3),
        ("INFO", "RESOLVED", 1),
        ("WARNING", "ACKNOWLEDGED", 619),
        ("WARNING", "ACTIVE", 1),
    ]


def test_a_choice_of_all_ends_with_one_among_other_alerts(watched: Watched, user: User, database_url: str) -> None:
    """It came back with its filters, and held the other alert too, which was then changed unseen."""
    page, operator = watched.page, user(role="OPERATOR")
    add_alerts(database_url, operator.slugs[0], ["WARNING"] * 60)
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/alerts")
    page.get_by_role("checkbox", name="Choose all alerts of this page").check()
    page.get_by_role("button", name="Choose all 60 alerts that match").click()
    expect(page.get_by_text("60 chosen")).to_be_visible()
    page.get_by_label("Status").select_option("Resolved")
    page.get_by_role("checkbox", name="Choose: Message of INFO").check()
    expect(page.get_by_text("1 chosen")).to_be_visible()
    page.get_by_label("Status").select_option("Open")
    expect(page.get_by_text("60 alerts", exact=True)).to_be_visible()
    expect(page.get_by_text("chosen")).to_have_count(0)


def test_viewers_see_alerts_and_change_none(watched: Watched, user: User, database_url: str) -> None:
    viewer = user()
    add_alerts(database_url, viewer.slugs[0], ["WARNING"])
    viewer.log_in(watched.page, f"/console/o/{viewer.slugs[0]}/alerts")
    expect(watched.page.get_by_role("row").filter(has_text="Roof")).to_have_count(1)
    expect(watched.page.get_by_role("row").filter(has_text="Roof").get_by_role("checkbox")).to_have_count(0)
    watched.page.get_by_label("Status").select_option("Acknowledged")
    expect(watched.page.get_by_text("No alert matches these filters.")).to_be_visible()


def test_a_page_says_that_it_still_shows_what_was_chosen_before(watched: Watched, user: User, database_url: str) -> None:
    page, viewer = watched.page, user()
    add_alerts(database_url, viewer.slugs[0], ["WARNING"])
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/alerts")
    expect(page.get_by_role("link", name="Message of WARNING")).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)
    with watched.held("**/api/v1/alerts?*RESOLVED*"):
        page.get_by_label("Status").select_option("Resolved")
        expect(page.get_by_text("Loading …")).to_be_visible()
        watched.check_accessibility()
    expect(page.get_by_role("link", name="Message of INFO")).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)


def test_alerts_are_filtered_by_when_they_were_raised(watched: Watched, user: User, database_url: str) -> None:
    page, viewer = watched.page, user()
    add_alerts(database_url, viewer.slugs[0], ["WARNING", "CRITICAL", "EMERGENCY"])
    with psycopg.connect(database_url) as db:
        for severity, time in (
            ("WARNING", "2026-03-01 09:00Z"),
            ("CRITICAL", "2026-03-02 09:00Z"),
            ("EMERGENCY", "2026-03-03 09:00Z"),
        ):
            db.execute("UPDATE alert SET created_at = %s WHERE severity = %s", (time, severity))
        # Times in a list of several plants are in the organisation's zone.
        db.execute("UPDATE organization SET time_zone = 'Europe/Berlin' WHERE slug = %s", (viewer.slugs[0],))
    viewer.log_in(page, f"/console/o/{viewer.slugs[0]}/alerts")
    rows = page.get_by_role("row").filter(has_text="Roof")
    expect(rows).to_have_count(3)
    page.get_by_text("At any time").click()
    start, end = page.get_by_label("From (Europe/Berlin)"), page.get_by_label("Until (Europe/Berlin)")
    show = page.get_by_role("button", name="Show", exact=True)
    start.fill("2026-03-02T10:00")
    watched.check_accessibility()
    # An alert is within the range that begins when it was raised.
    show.click()
    expect(rows).to_have_count(2)
    chosen = page.get_by_text("From 2 Mar 2026, 10:00:00 CET")
    expect(chosen).to_be_visible()
    chosen.click()
    end.fill("2026-03-02T10:00")
    show.click()
    # The browser says that a range cannot end when it begins.
    expect(rows).to_have_count(2)
    end.fill("2026-03-03T10:00")
    show.click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("CRITICAL")
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_text("From 2 Mar 2026, 10:00:00 CET until 3 Mar 2026, 10:00:00 CET")).to_be_visible()
    # Other filters keep the times.
    page.get_by_role("checkbox", name="Warning", exact=True).check()
    expect(page.get_by_text("No alert matches these filters.")).to_be_visible()
    watched.check_accessibility()
    page.set_viewport_size({"width": 390, "height": 800})
    watched.check_width(390)
    page.get_by_role("button", name="Any time").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("WARNING")
    assert "from" not in page.url


def test_times_that_are_left_as_they_are_stay(watched: Watched, user: User, database_url: str) -> None:
    """When summer time ends, clocks show an hour twice: the field alone does not say which of both is meant."""
    page, viewer = watched.page, user()
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE organization SET time_zone = 'Europe/Berlin' WHERE slug = %s", (viewer.slugs[0],))
    viewer.log_in(page, path := f"/console/o/{viewer.slugs[0]}/alerts")
    for hour in ("00", "01"):
        page.goto(f"{path}?from=2026-10-25T{hour}:30:20.000Z")
        page.get_by_text("From 25 Oct 2026, 02:30:20").click()
        page.get_by_label("Until (Europe/Berlin)").fill("2026-10-26T00:00")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page).to_have_url(re.compile(f"from=2026-10-25T{hour}%3A30%3A20.000Z&to="))
