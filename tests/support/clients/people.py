"""Users of an application under test: accounts, sessions, organisations, and their audit events."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx

from gridfleet.domains.organizations.models import Organization
from gridfleet.kernel.caller import OrgRole
from support.builders.accounts import add_member, add_organization, add_user, session_of
from support.servers.api_service import ApiService, bearer
from support.servers.postbox import work_off

PASSWORD = "Correct horse 1!"


@dataclass(frozen=True)
class Person:
    """A user with an account and an open session."""

    id: UUID
    email: str
    headers: dict[str, str]


@dataclass(frozen=True)
class People:
    """The application and its users."""

    service: ApiService

    async def call(
        self, method: str, path: str, body: Any = None, who: Person | None = None, org: UUID | str | None = None, **more: Any
    ) -> httpx.Response:
        """Make a call. `who` is the logged-in user; `org` is sent as `x-org-id`."""
        headers = {**(who.headers if who else {}), **({"x-org-id": str(org)} if org else {}), **more.pop("headers", {})}
        body_of = {"json": body} if body is not None else {}
        return await self.service.client.request(method, f"/api/v1{path}", headers=headers, **body_of, **more)

    async def person(self, email: str | None = None, *, super_admin: bool = False) -> Person:
        """Return a logged-in user without a usable password."""
        state = self.service.state
        account = await add_user(state.database, email, super_admin=super_admin)
        token = await session_of(state.database, state.access_tokens, account)
        return Person(account.id, account.email, bearer(token))

    async def with_password(self, email: str, password: str = PASSWORD) -> Person:
        """Return a user with a password, logged in with it."""
        state = self.service.state
        account = await add_user(state.database, email)
        hashed = await state.passwords.hash(password)
        async with state.database.transaction() as db:
            await db.execute("UPDATE user_account SET password_hash = %s WHERE id = %s", (hashed, account.id))
        answer = await self.log_in(email, password)
        return Person(account.id, email, bearer(answer.json()["access_token"]))

    async def log_in(self, email: str, password: str = PASSWORD) -> httpx.Response:
        """Return the response to a login. The client keeps no cookies."""
        answer = await self.call("POST", "/auth/login", {"email": email, "password": password})
        self.service.client.cookies.clear()
        return answer

    async def organization(self, **members: Person) -> Organization:
        """Return a new organisation with members by role: `organization(VIEWER=person)`."""
        made = await add_organization(self.service.state.database)
        for role, person in members.items():
            await add_member(self.service.state.database, made.id, person.id, OrgRole[role])
        return made

    async def events(self, *, of: UUID | None = None) -> list[dict[str, Any]]:
        """Return all audit events, oldest first, read by a new SuperAdmin. `of` filters by subject."""
        admin = await self.person(super_admin=True)
        found = (await self.call("GET", "/audit-events?limit=100", who=admin)).json()["data"][::-1]
        return [event for event in found if of is None or event["subjectId"] == str(of)]

    async def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement, commit, and return its rows."""
        async with self.service.state.database.transaction() as db:
            cursor = await db.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    async def work_off(self) -> None:
        """Run the jobs that are due."""
        await work_off(self.service.state)


def refused(answer: httpx.Response, status: int, code: str) -> list[str]:
    """Assert a refusal and return its details."""
    body = answer.json()
    assert set(body) == {"statusCode", "error", "message", "code", "details"}
    assert (answer.status_code, body["statusCode"], body["code"]) == (status, status, code), body
    details: list[str] = body["details"]
    return details
