"""A browser without a network, or without the service: nothing is made later that was given up, and the page stays."""

import re
from collections.abc import Callable

import psycopg
from playwright.sync_api import BrowserContext, Route, expect

from support.clients.console_data import add_system_templates
from support.clients.console_user import ConsoleUser, add_plants
from support.clients.watched_page import Watched

User = Callable[..., ConsoleUser]


def test_a_command_that_was_given_up_without_a_network_is_not_sent_later(
    watched: Watched, context: BrowserContext, user: User, database_url: str
) -> None:
    watched.follow_requests()
    add_system_templates(database_url)
    operator = user(role="OPERATOR")
    [plant_id] = add_plants(database_url, operator.slugs[0], "Barn")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE plant SET lifecycle_status = 'ACTIVE' WHERE id = %s", (plant_id,))
        db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, template_id)"
            " SELECT gen_random_uuid(), p.organization_id, p.id, 'BAT1', 'Battery', 'BATTERY', t.id"
            " FROM plant p, device_template t WHERE p.id = %s AND t.name = 'Gridfleet battery'",
            (plant_id,),
        )
    page = watched.page
    watched.allowed += ["ERR_INTERNET_DISCONNECTED", "EventSource"]
    operator.log_in(page, f"/console/o/{operator.slugs[0]}/plants/{plant_id}/devices")
    send = page.get_by_role("button", name="Send a command")
    expect(send).to_be_visible()
    watched.wait_until_loaded()
    context.set_offline(True)
    for _ in range(2):
        send.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Action").select_option("Stop")
        dialog.get_by_role("button", name="Send", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("The service cannot be reached.")
        dialog.get_by_role("button", name="Cancel").click()
    context.set_offline(False)
    page.wait_for_timeout(3_000)
    watched.wait_until_loaded()
    with psycopg.connect(database_url) as db:
        rows = db.execute("SELECT 1 FROM plant_command WHERE plant_id = %s", (plant_id,)).fetchall()
    assert rows == []


def test_a_part_of_a_page_that_cannot_be_loaded_leaves_the_page(
    watched: Watched, context: BrowserContext, user: User, database_url: str
) -> None:
    """While the service restarts, the browser would show an error of its own in place of the page."""
    watched.follow_requests()
    operator = user(role="OPERATOR")
    add_plants(database_url, operator.slugs[0], "Barn", "Hall")
    page = watched.page
    watched.allowed += ["ERR_CONNECTION_REFUSED", "EventSource"]
    operator.log_in(page)
    page.get_by_role("checkbox", name="Select Barn").check()
    watched.wait_until_loaded()
    context.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("button", name="Export as CSV").click()
    expect(page.get_by_text("The service cannot be reached. Try again").first).to_be_visible()
    page.get_by_role("button", name="Add to a group").click()
    page.wait_for_timeout(2_000)
    expect(page.get_by_text("1 plant selected")).to_be_visible()
    context.unroute("**/*")
    expect(page.get_by_role("dialog", name="Add 1 plant to a group")).to_be_visible()


def test_a_part_of_a_page_that_a_release_has_replaced_loads_the_page_anew(
    watched: Watched, user: User, database_url: str
) -> None:
    watched.follow_requests()
    operator = user(role="OPERATOR")
    add_plants(database_url, operator.slugs[0], "Barn")
    page = watched.page
    watched.allowed.append("status of 404")
    operator.log_in(page)
    page.get_by_role("checkbox", name="Select Barn").check()
    watched.wait_until_loaded()
    page.route("**/console/assets/*", lambda route: route.fulfill(status=404), times=1)
    with page.expect_event("load"):
        page.get_by_role("button", name="Add to a group").click()
    page.get_by_role("checkbox", name="Select Barn").check()
    page.get_by_role("button", name="Add to a group").click()
    expect(page.get_by_role("dialog", name="Add 1 plant to a group")).to_be_visible()


def test_a_page_whose_texts_cannot_be_loaded_shows_itself_later(watched: Watched, context: BrowserContext, user: User) -> None:
    page, member = watched.page, user()
    watched.allowed += ["ERR_CONNECTION_RESET", "ERR_CONNECTION_REFUSED", "EventSource"]
    refused: list[str] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.abort("connectionreset")

    context.route(re.compile(r"/assets/en-.*\.js$"), refuse)
    page.goto("/console/login")
    for _ in range(600):
        if len(refused) > 2:
            break
        page.wait_for_timeout(100)
    context.unroute(re.compile(r"/assets/en-.*\.js$"))
    expect(page.get_by_label("E-mail address")).to_be_visible()
    member.log_in(page)
