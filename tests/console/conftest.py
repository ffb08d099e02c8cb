"""Chromium, and pages that must show no error, break no policy and be usable without a mouse or sight."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from support.clients.console_user import ConsoleUser, console_user
from support.clients.watched_page import Watched, open_browser, open_context
from support.servers.served import Served, served

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run Chromium for a module. Playwright's event loop runs as long, and no asynchronous test could run beside it."""
    with sync_playwright() as playwright:
        running = open_browser(playwright)
        yield running
        running.close()


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    with served(database_url, home) as running:
        yield running


@pytest.fixture
def user(service: Served, database_url: str) -> Callable[..., ConsoleUser]:
    return lambda **options: console_user(service, database_url, **options)


@pytest.fixture
def context(browser: Browser, service: Served) -> Iterator[BrowserContext]:
    made = open_context(browser, service.url)
    yield made
    made.close()


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    made = Watched(context.new_page())
    yield made
    made.check()
