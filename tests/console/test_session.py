"""Login, logout, renewal and the end of a session in the middle of work."""

import re
from collections.abc import Callable

import psycopg
from playwright.sync_api import BrowserContext, Route, expect

from gridfleet.kernel.ids import new_id
from support.clients.console_user import PASSWORD, ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]
REFUSED = "status of 401"
"""Part of Chromium's message about a response that a test expects."""


def test_a_visitor_logs_in_and_sees_the_fleet(watched: Watched, user: User) -> None:
    page, member = watched.page, user()
    member.log_in(page, "/")
    expect(page).to_have_url(re.compile(f"/console/o/{member.slugs[0]}/fleet$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    expect(page.get_by_text("No plants yet")).to_be_visible()


def test_a_wrong_password_is_said_with_the_request_id(watched: Watched, user: User) -> None:
    page, member = watched.page, user()
    watched.allowed.append(REFUSED)
    page.goto("/console/login")
    page.get_by_label("E-mail address").fill(member.email)
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Log in").click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("The e-mail or the password is wrong.")
    assert re.search(r"Request [0-9a-f-]{36}", refusal.inner_text())


def test_a_link_leads_to_its_page_after_the_login(watched: Watched, user: User) -> None:
    page, member = watched.page, user(organizations=2)
    path = f"/console/o/{member.slugs[1]}/fleet"
    member.log_in(page, path)
    expect(page).to_have_url(re.compile(f"{path}$"))


def test_a_link_of_another_site_is_not_followed(watched: Watched, user: User) -> None:
    page, member = watched.page, user()
    for target in ("https://evil.example/", "//evil.example/", "/\\evil.example/", "javascript:alert(1)"):
        page.goto(f"/console/login?next={target}")
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        assert "evil" not in page.evaluate("history.state && JSON.stringify(history.state)")
    member.log_in(page, "/console/login?next=//evil.example/")
    expect(page).to_have_url(re.compile(f"/console/o/{member.slugs[0]}/fleet$"))


def test_after_the_logout_no_page_is_shown(watched: Watched, user: User) -> None:
    page, member = watched.page, user()
    member.log_in(page)
    page.get_by_text("Vera Viewer").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/console/login$"))
    page.go_back()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_after_the_logout_no_other_tab_shows_anything(watched: Watched, user: User, context: BrowserContext) -> None:
    page, member, other = watched.page, user(), context.new_page()
    member.log_in(page)
    other.goto(f"/console/o/{member.slugs[0]}/fleet")
    expect(other.get_by_role("heading", level=1)).to_have_text("Fleet")
    page.get_by_text("Vera Viewer").click()
    page.get_by_role("button", name="Log out").click()
    for tab in (page, other):
        expect(tab).to_have_url(re.compile("/console/login$"))
        expect(tab.get_by_role("button", name="Log in")).to_be_visible()


def test_the_login_of_another_user_leaves_no_tab_of_the_former_one(
    watched: Watched, user: User, context: BrowserContext
) -> None:
    """Its requests would be those of the new user."""
    page, former, present = watched.page, user(), user(name="Olga Owner")
    former.log_in(page)
    expect(page.get_by_text("Vera Viewer")).to_be_visible()
    other = context.new_page()
    present.log_in(other, "/console/login")
    for tab in (other, page):
        expect(tab.get_by_text("Olga Owner")).to_be_visible()
        expect(tab).to_have_url(re.compile(f"/console/o/{present.slugs[0]}/fleet$"))
    expect(page.get_by_text("Vera Viewer")).to_have_count(0)


def test_a_logout_after_a_long_pause_ends_the_session(watched: Watched, user: User, context: BrowserContext) -> None:
    """The access token has expired, but for weeks the browser gets another one without a password."""
    page, member = watched.page, user()
    watched.allowed.append(REFUSED)
    member.log_in(page)
    fleet = page.url
    context.clear_cookies(name="gridfleet_session")
    page.get_by_text("Vera Viewer").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/console/login$"))
    page.goto(fleet)
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_logout_that_fails_is_said_and_one_of_an_ended_session_succeeds(
    watched: Watched, user: User, context: BrowserContext
) -> None:
    page, member = watched.page, user()
    watched.allowed += [REFUSED, "status of 400", "ERR_FAILED"]
    member.log_in(page)
    page.get_by_text("Vera Viewer").click()
    page.route("**/auth/logout", lambda route: route.abort())
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    watched.check_accessibility()
    page.unroute("**/auth/logout")
    context.clear_cookies()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/console/login$"))


def test_an_ended_session_leads_to_the_login_and_back(watched: Watched, user: User, context: BrowserContext) -> None:
    page, member = watched.page, user(organizations=2)
    watched.allowed += [REFUSED, "status of 400"]
    member.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    context.clear_cookies()
    path = f"/console/o/{member.slugs[1]}/fleet"
    page.goto(path)
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    page.get_by_label("E-mail address").fill(member.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile(f"{path}$"))


def test_a_session_is_renewed_before_it_expires_once_among_all_tabs(
    watched: Watched, user: User, context: BrowserContext
) -> None:
    page, member = watched.page, user()
    member.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    other = context.new_page()
    renewals: list[str] = []
    context.on("request", lambda request: renewals.append(request.url) if request.url.endswith("/auth/refresh") else None)
    # On a page without the console: a request of its own would renew the session too, and be lost when the page is left.
    fleet = page.url
    page.goto("/api/v1/health")
    page.evaluate("localStorage.setItem('gridfleet-session', String(Date.now() - 11 * 60_000))")
    page.goto(fleet, wait_until="commit")
    other.goto(fleet)
    for tab in (page, other):
        expect(tab.get_by_role("heading", level=1)).to_have_text("Fleet")
    assert len(renewals) == 1


def test_a_renewal_that_fails_for_a_moment_ends_no_session(watched: Watched, user: User, context: BrowserContext) -> None:
    page, member = watched.page, user()
    watched.allowed += [REFUSED, "503"]
    member.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    context.route("**/api/v1/auth/refresh", lambda route: route.fulfill(status=503, body="busy"))
    page.evaluate("localStorage.setItem('gridfleet-session', String(Date.now() - 11 * 60_000))")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    context.clear_cookies(name="gridfleet_session")
    page.reload()
    expect(page.get_by_role("alert")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("button", name="Log in")).to_be_hidden()
    context.unroute("**/api/v1/auth/refresh")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_a_clock_that_was_set_back_ends_no_session(watched: Watched, user: User, context: BrowserContext) -> None:
    """A machine that starts with another time corrects it once it has a network."""
    page, member = watched.page, user()
    watched.allowed.append(REFUSED)
    member.log_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")
    # As an hour later, when the access token has expired.
    context.clear_cookies(name="gridfleet_session")
    page.evaluate("localStorage.setItem('gridfleet-session', String(Date.now() + 60 * 60_000))")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_another_organisation_is_like_none(watched: Watched, user: User) -> None:
    page, member, stranger = watched.page, user(), user()
    member.log_in(page)
    for slug in (stranger.slugs[0], "nothing"):
        page.goto(f"/console/o/{slug}/fleet")
        expect(page.get_by_text("This page does not exist.")).to_be_visible()


def test_a_user_of_no_organisation_can_leave(watched: Watched, user: User) -> None:
    page = watched.page
    guest = user(organizations=0)
    guest.log_in(page)
    expect(page.get_by_text("Your account belongs to no organisation yet.")).to_be_visible()
    page.get_by_text(guest.email).click()
    watched.check_accessibility()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_change_whose_response_was_lost_is_not_made_twice(watched: Watched, user: User, database_url: str) -> None:
    """Otherwise a second new secret would end the one that the plant uses."""
    page, admin = watched.page, user(role="ORG_ADMIN")
    watched.allowed.append("ERR_FAILED")
    [plant_id] = add_plants(database_url, admin.slugs[0], "Roof")
    admin.log_in(page, f"/console/o/{admin.slugs[0]}/plants/{plant_id}/credentials")
    made: list[str] = []

    def lose(route: Route) -> None:
        made.append(route.fetch().json()["hmacSecret"])
        route.abort()

    with page.expect_download():
        page.get_by_role("button", name="Make credentials and save them").click()
    page.get_by_role("button", name="I have the file").click()
    page.route("**/rotate-secret", lose)
    rotate = page.get_by_role("button", name="Rotate the secret")
    rotate.click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.unroute("**/rotate-secret")
    dialog = page.get_by_role("dialog")
    for is_repeated in (True, False):
        rotate.click()
        if not is_repeated:
            expect(dialog).to_contain_text("the one before is refused at once")
            expect(dialog.get_by_role("button", name="Rotate the secret")).to_be_disabled()
            watched.check_accessibility()
            dialog.get_by_label("Type “Roof” to confirm").fill("Roof")
            dialog.get_by_role("button", name="Rotate the secret").click()
        shown = dialog.get_by_label("HMAC secret").input_value()
        assert (shown == made[0]) is is_repeated
        page.get_by_role("button", name="Close").click()
    expect(page.get_by_text(re.compile("^in (60|59) minutes$"))).to_be_visible()
    # One that the service refused was not made: the next one is no repetition.
    watched.allowed.append("status of 429")
    busy = {"statusCode": 429, "code": "TOO_MANY_REQUESTS", "message": "Too many requests.", "details": []}
    page.route("**/rotate-secret", lambda route: route.fulfill(status=429, json=busy))
    rotate.click()
    dialog.get_by_label("Type “Roof” to confirm").fill("Roof")
    dialog.get_by_role("button", name="Rotate the secret").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Too many requests.")
    dialog.get_by_role("button", name="Cancel").click()
    page.unroute("**/rotate-secret")
    rotate.click()
    expect(dialog.get_by_role("button", name="Rotate the secret")).to_be_disabled()


def test_a_secret_that_is_shown_once_stays_while_the_service_cannot_be_reached(
    watched: Watched, user: User, database_url: str
) -> None:
    page, admin = watched.page, user(role="ORG_ADMIN")
    watched.allowed.append("ERR_FAILED")
    [plant_id] = add_plants(database_url, admin.slugs[0], "Roof")
    admin.log_in(page, f"/console/o/{admin.slugs[0]}/plants/{plant_id}/credentials")
    with page.expect_download():
        page.get_by_role("button", name="Make credentials and save them").click()
    page.get_by_role("button", name="I have the file").click()
    page.route(f"**/api/v1/plants/{plant_id}", lambda route: route.abort())
    page.get_by_role("button", name="Rotate the secret").click()
    # The plant is read again.
    expect(page.get_by_text("The service cannot be reached. Try again")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_label("HMAC secret")).to_be_visible()


def test_a_session_that_ends_while_a_form_is_open_keeps_what_was_typed(
    watched: Watched, user: User, context: BrowserContext
) -> None:
    page, member = watched.page, user(role="OPERATOR")
    watched.allowed += [REFUSED, "status of 400"]
    member.log_in(page)
    page.get_by_role("link", name="Groups").click()
    page.get_by_label("Name of the new group").fill("North")
    second = context.new_page()
    second.goto(page.url)
    second.get_by_label("Name of the new group").fill("South")
    # As if an administrator had ended it: this page knows nothing of it.
    page.evaluate("fetch('/api/v1/auth/logout', {method: 'POST'})")
    expect(page.get_by_role("status").filter(has_text="Your session has ended.")).to_be_visible()
    expect(page.get_by_text("The service cannot be reached")).to_have_count(0)
    watched.check_accessibility()
    with context.expect_page() as opened:
        page.get_by_role("link", name="Log in").click()
    other = opened.value
    other.get_by_label("E-mail address").fill(member.email)
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Log in").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Fleet")
    expect(page.get_by_text("Your session has ended.")).to_have_count(0)
    for tab, name in ((page, "North"), (second, "South")):
        tab.get_by_role("button", name="Create a group").click()
        expect(tab.get_by_role("link", name=name)).to_be_visible()


def test_a_member_who_is_removed_while_a_page_is_open_learns_it(watched: Watched, user: User, database_url: str) -> None:
    page, member = watched.page, user()
    watched.allowed.append("status of 403")
    member.log_in(page)
    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_text("There are no groups.")).to_be_visible()
    # Before its stream is open, a page does not notice that it ends.
    page.wait_for_timeout(1_000)
    page.evaluate("localStorage.setItem('gridfleet-session', String(Date.now() - 60_000))")
    renewals: list[str] = []
    page.on("request", lambda request: renewals.append(request.url) if request.url.endswith("/auth/refresh") else None)
    with psycopg.connect(database_url) as db:
        removed = db.execute(
            "DELETE FROM membership USING user_account WHERE user_id = user_account.id AND email = %s"
            " RETURNING membership.organization_id, user_id, role",
            (member.email,),
        ).fetchone()
    assert removed is not None
    expect(page.get_by_role("status").filter(has_text="You no longer belong to this organisation")).to_be_visible()
    expect(page.get_by_text("The service cannot be reached")).to_have_count(0)
    assert not renewals, "a page that stays open for days would renew the session every ten seconds"
    watched.check_accessibility()
    with psycopg.connect(database_url) as db:
        db.execute("INSERT INTO membership (id, organization_id, user_id, role) VALUES (%s, %s, %s, %s)", (new_id(), *removed))
    expect(page.get_by_text("You no longer belong to this organisation")).to_have_count(0)


def test_a_release_that_replaced_the_page_leaves_what_was_typed(watched: Watched, user: User) -> None:
    watched.follow_requests()
    page, operator = watched.page, user(role="OPERATOR")
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/rules/new")
    name = page.get_by_label("Name", exact=True)
    name.fill("Low battery")
    watched.wait_until_loaded()
    watched.allowed.append("404")
    page.route("**/console/assets/*", lambda route: route.fulfill(status=404))
    trading = page.get_by_role("link", name="Trading")
    with page.expect_response(lambda response: response.status == 404):
        trading.hover()
    page.wait_for_timeout(1_000)
    expect(name).to_have_value("Low battery")
    page.unroute("**/console/assets/*")
    trading.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Trading")
