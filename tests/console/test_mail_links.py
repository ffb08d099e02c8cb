"""Links in mails: from an invitation to the console, and what a used link says."""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from support.clients.fleet_under_test import Fleet, wait_for
from support.clients.watched_page import Watched, open_context
from support.servers.postbox import delivered, text_of
from support.servers.running_stack import RunningStack

PASSWORD = "Correct horse 1!"


@pytest.fixture
def watched(browser: Browser, stack: RunningStack) -> Iterator[Watched]:
    context = open_context(browser, stack.base_url, width=390, height=844)
    made = Watched(context.new_page())
    yield made
    made.check()
    context.close()


def link_to(stack: RunningStack, address: str, number: int = 1) -> str:
    """Return the path of the link in the newest of so many mails to an address."""
    mails = wait_for(lambda: found if len(found := delivered(stack.home, address)) == number else None)
    link = next(word for word in text_of(mails[-1]).split() if word.startswith("http"))
    return "/" + link.split("/", 3)[3]


def log_in(page: Page, address: str) -> None:
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("E-mail address").fill(address)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Fleet")


def test_an_invited_person_registers_and_finds_the_console(watched: Watched, stack: RunningStack, fleet: Fleet) -> None:
    page = watched.page
    address = f"{uuid4().hex}@example.com"
    fleet.call("POST", "/invitations", {"email": address, "role": "OPERATOR"})
    link = link_to(stack, address)
    page.goto(link)
    page.get_by_role("button", name="Accept the invitation").click()
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Password").fill(PASSWORD)
    watched.check_accessibility()
    page.get_by_role("button", name="Register").click()
    log_in(page, address)

    watched.allowed += ["status of 400", "status of 409", "status of 410"]
    page.goto("/console/forgot")
    page.goto(link)
    expect(page.get_by_text("This invitation has been used.")).to_be_visible()
    watched.check_accessibility()
    expect(page.get_by_role("link", name="Log in")).to_have_attribute("href", "/console/login")


def test_a_lost_response_to_an_invitation_leads_to_the_login(watched: Watched, stack: RunningStack, fleet: Fleet) -> None:
    """Those who try again may be members already. The page asked them to register, which was refused."""
    page = watched.page
    watched.allowed += ["status of 400", "status of 409", "status of 410", "ERR_FAILED"]
    address = f"{uuid4().hex}@example.com"

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    def press(button: str) -> None:
        page.route("**/api/v1/auth/**", lose, times=1)
        page.get_by_role("button", name=button).click()
        expect(page.get_by_text("The service does not answer.")).to_be_visible()
        page.get_by_role("button", name=button).click()

    fleet.call("POST", "/invitations", {"email": address, "role": "OPERATOR"})
    page.goto(link_to(stack, address))
    press("Accept the invitation")
    page.get_by_label("Your name").fill("Ada")
    page.get_by_label("Password").fill(PASSWORD)
    press("Register")
    expect(page.get_by_text("This invitation has been used.")).to_be_visible()
    with closing(Fleet(stack)) as other:
        other.call("POST", "/invitations", {"email": address, "role": "OPERATOR"})
        page.goto("/console/forgot")
        page.goto(link_to(stack, address, 2))
        press("Accept the invitation")
        expect(page.get_by_text("This invitation has been used.")).to_be_visible()
        log_in(page, address)
