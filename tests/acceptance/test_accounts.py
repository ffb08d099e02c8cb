"""People at the running service: invited by mail, registered, logged in, promoted, logged out everywhere."""

import time
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any
from uuid import uuid4

import httpx
import pytest

from support.servers.postbox import delivered, text_of, token_in
from support.servers.running_stack import RunningStack

PASSWORD, NEW_PASSWORD = "Correct horse 1!", "quite another password"


class Browser:
    """HTTP client of a user: keeps cookies as a browser does, or a bearer token as a script does."""

    def __init__(self, stack: RunningStack) -> None:
        self._http = httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=30)

    def call(self, method: str, path: str, body: Any = None, expect: int = 200, **headers: str) -> Any:
        """The JSON of an answer with the expected status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._http.request(method, path, json=body, headers=named)
        assert answer.status_code == expect, answer.text
        return answer.json()

    def log_in(self, email: str, password: str) -> dict[str, Any]:
        """Opens a session and goes on with its bearer token."""
        opened: dict[str, Any] = self.call("POST", "/auth/login", {"email": email, "password": password})
        self.use(opened)
        return opened

    def use(self, opened: dict[str, Any]) -> None:
        self._http.headers["authorization"] = f"Bearer {opened['access_token']}"

    def refresh_cookie(self) -> str:
        return str(self._http.cookies["gridfleet_refresh"])

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def browsers(stack: RunningStack) -> Iterator[list[Browser]]:
    made = [Browser(stack) for _ in range(3)]
    yield made
    for browser in made:
        browser.close()


def mail_to(stack: RunningStack, address: str, number: int = 1) -> EmailMessage:
    """The mail with this number to an address, once it has been delivered."""
    deadline = time.monotonic() + 20
    while len(mails := delivered(stack.home, address)) < number:
        assert time.monotonic() < deadline, f"no mail {number} to {address}"
        time.sleep(0.05)
    return mails[number - 1]


def test_from_an_invitation_to_logging_out_everywhere(stack: RunningStack, browsers: list[Browser]) -> None:
    admin, ada, ada_elsewhere = browsers
    admin.log_in(stack.admin_email, stack.admin_password)
    slug = f"acme-{uuid4().hex[:8]}"
    email = f"ada@{slug}.example.com"
    org = admin.call("POST", "/organizations", {"name": "Acme", "slug": slug}, expect=201)["id"]

    invitation = admin.call("POST", "/invitations", {"email": email}, expect=201, x_org_id=org)
    assert invitation["status"] == "PENDING"
    mail = mail_to(stack, email)
    assert "Acme" in text_of(mail)
    token = token_in(mail)
    link = next(word for word in text_of(mail).split() if word.startswith("http"))
    page = httpx.get(link.partition("#")[0].replace("http://localhost:", "http://127.0.0.1:"))
    assert page.headers["content-type"].startswith("text/html")
    accepted = ada.call("GET", f"/auth/confirm-accept?token={token}")  # the page's button
    assert accepted["redirectPath"] == f"/complete-registration?token={token}"

    registration = {"name": "Ada", "password": PASSWORD, "token": token}
    ada.use(ada.call("POST", "/auth/register/invite", registration, expect=201))
    assert ada.call("GET", "/auth/me")["user"]["currentOrganization"]["role"] == "VIEWER"

    opened = ada_elsewhere.log_in(email, PASSWORD)
    assert opened["user"]["name"] == "Ada"
    old_cookie = ada_elsewhere.refresh_cookie()
    ada_elsewhere.use(ada_elsewhere.call("POST", "/auth/refresh"))
    assert ada_elsewhere.refresh_cookie() != old_cookie

    plant = {"name": "Roof", "serialNumber": "1", "type": "GATEWAY"}
    ada.call("POST", "/plants", plant, expect=403, x_org_id=org)
    [member] = admin.call("GET", f"/organizations/{org}/members")["data"]
    admin.call("PATCH", f"/organizations/{org}/members/{member['id']}", {"role": "OPERATOR"})
    ada.call("POST", "/plants", plant, expect=201, x_org_id=org)

    assert len(ada.call("GET", "/auth/sessions")) == 2
    ada.call("POST", "/auth/logout-all")
    for browser in (ada, ada_elsewhere):
        assert browser.call("GET", "/auth/me", expect=401)["code"] == "UNAUTHORIZED"
    assert ada_elsewhere.call("POST", "/auth/refresh", expect=401)["code"] == "REFRESH_TOKEN_INVALID"

    events = {event["event"] for event in admin.call("GET", "/audit-events?limit=100", x_org_id=org)["data"]}
    assert {
        "organization.created",
        "invitation.created",
        "invitation.accepted",
        "member.added",
        "member.role_changed",
    } <= events


def test_a_forgotten_password_comes_back_by_mail(stack: RunningStack, browsers: list[Browser]) -> None:
    admin, ada, _ = browsers
    admin.log_in(stack.admin_email, stack.admin_password)
    email = f"ada-{uuid4().hex[:8]}@example.com"
    admin.call("POST", "/auth/register", {"email": email, "name": "Ada", "password": PASSWORD}, expect=201)
    ada.call("POST", "/auth/forgot-password", {"email": email})
    token = token_in(mail_to(stack, email))
    ada.call("POST", "/auth/reset-password", {"token": token, "newPassword": NEW_PASSWORD})
    ada.log_in(email, NEW_PASSWORD)

    new = f"new-{email}"
    ada.call("PATCH", "/auth/me", {"email": new, "currentPassword": NEW_PASSWORD})
    ada.call("POST", "/auth/email/confirm", {"token": token_in(mail_to(stack, new))})
    assert ada.call("GET", "/auth/me")["user"]["email"] == new
    ada.call("DELETE", f"/auth/sessions/{ada.call('GET', '/auth/sessions')[0]['id']}")
    ada.call("GET", "/auth/me", expect=401)
