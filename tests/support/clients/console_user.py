"""Users who log in to the console with a password."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import httpx
import psycopg
from playwright.sync_api import Page

from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.passwords import Passwords
from support.servers.served import Served

PASSWORD = "Correct horse 1!"


@dataclass(frozen=True)
class ConsoleUser:
    """A user. `slugs` are those of the organisations that the user belongs to."""

    email: str
    slugs: tuple[str, ...]

    def log_in(self, page: Page, path: str = "/console/") -> None:
        """Open a page of the console, log in there, and wait for what follows."""
        page.goto(path)
        page.get_by_label("E-mail address").fill(self.email)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(lambda url: "/console/login" not in url)


def console_user(
    service: Served,
    database_url: str,
    *,
    role: str = "VIEWER",
    organizations: int = 1,
    name: str = "Vera Viewer",
    joins: tuple[str, ...] = (),
) -> ConsoleUser:
    """Return a new user with this role in some new organisations and in those with the slugs `joins`."""
    email, user_id, slugs = f"{new_id()}@example.com", new_id(), list(joins)
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=service.headers, timeout=60) as client:
        for number in range(1, organizations + 1):
            slugs.append(f"org-{new_id().hex}")
            client.post("/organizations", json={"name": f"Organisation {number}", "slug": slugs[-1]}).raise_for_status()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO user_account (id, email, name, password_hash) VALUES (%s, %s, %s, %s)",
            (user_id, email, name, _stored_password()),
        )
        for slug in slugs:
            db.execute(
                "INSERT INTO membership (id, organization_id, user_id, role)"
                " SELECT %s, id, %s, %s FROM organization WHERE slug = %s",
                (new_id(), user_id, role, slug),
            )
    return ConsoleUser(email, tuple(slugs))


@cache
def _stored_password() -> str:
    # In a thread, because Playwright's event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, Passwords(1).hash(PASSWORD)).result()


def add_plants(database_url: str, slug: str, *names: str) -> list[str]:
    """Register TOKEN plants with these names in an organisation. Returns their ids."""
    ids = [new_id() for _ in names]
    with psycopg.connect(database_url) as db:
        for plant_id, name in zip(ids, names, strict=True):
            db.execute(
                "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
                " SELECT %s, id, %s, %s, 'GATEWAY', 'TOKEN' FROM organization WHERE slug = %s",
                (plant_id, name, f"SN {name}", slug),
            )
    return [str(plant_id) for plant_id in ids]


def add_group(database_url: str, slug: str, name: str) -> str:
    """Create a group without plants in an organisation. Returns its id."""
    group_id = new_id()
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO plant_group (id, organization_id, name) SELECT %s, id, %s FROM organization WHERE slug = %s",
            (group_id, name, slug),
        )
    return str(group_id)
