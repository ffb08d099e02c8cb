"""Chromium, and pages that must show no error, break no policy and be usable without a mouse or sight."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from support.clients.console_user import ConsoleUser, console_user
from support.clients.watched_page import Watched, open_context
from support.servers.served import Served, served

_ARGUMENTS = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync")
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run Chromium for a module. Playwright's event loop runs as long, and no asynchronous test could run beside it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "scripts/ensure_test_tools.sh installs Chromium"
    # Chromium refuses its sandbox to root.
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=arguments)
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
