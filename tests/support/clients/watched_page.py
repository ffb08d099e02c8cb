"""Pages of the console whose errors are collected and whose accessibility is checked."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request, Route, ViewportSize

_AXE = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"


_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without the browser's own windows, which take half of the processor time even unseen."""

_ARGUMENTS = ("--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync")


def open_browser(playwright: Playwright) -> Browser:
    """Start Chromium. Raises AssertionError if it is not installed."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    assert program is not None, "scripts/ensure_test_tools.sh installs Chromium"
    # Chromium refuses its sandbox to root.
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.getuid() == 0 else [])]
    return playwright.chromium.launch(executable_path=program, args=arguments)


def open_context(browser: Browser, base_url: str, width: int = 1280, height: int = 800, **options: Any) -> BrowserContext:
    """Open a context in British English whose drawings do not move and whose actions wait up to a minute.

    An action waits until its element keeps its place for two frames. On a busy machine without a graphics processor Chromium
    draws few frames, fewer still beside endless animations: a click was seen to wait in vain for 20 s.
    """
    size: ViewportSize = {"width": width, "height": height}
    context = browser.new_context(base_url=base_url, viewport=size, locale="en-GB", reduced_motion="reduce", **options)
    context.set_default_timeout(60_000)
    return context


class Watched:
    """A page whose messages are collected. `allowed` holds parts of messages that a test expects."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.allowed: list[str] = []
        self._messages: list[str] = []
        self._waiting: set[Request] | None = None
        page.on("console", lambda message: self._note(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._note(str(error)))

    def follow_requests(self) -> None:
        """Note from now on which requests are in flight, streams aside. Playwright then passes on each of them, slowly."""
        waiting = self._waiting = set[Request]()
        self.page.on("request", lambda request: waiting.add(request) if request.resource_type != "eventsource" else None)
        for ended in ("requestfinished", "requestfailed"):
            # Playwright cannot attach what it needs to a method of a built-in type.
            self.page.on(ended, lambda request: waiting.discard(request))

    def _note(self, text: str) -> None:
        self._messages.append(text)

    def check(self) -> None:
        """Raise AssertionError for errors, warnings and violations of the policy that the page has caused."""
        found = [text for text in self._messages if not any(part in text for part in self.allowed)]
        assert not found, found

    def wait_until_loaded(self) -> None:
        """Wait until the page has had no request in flight for 100 ms, of those since `follow_requests`."""
        assert self._waiting is not None, "follow the requests first"
        while True:
            self.page.wait_for_timeout(100)
            if not self._waiting:
                return

    @contextmanager
    def held(self, url: str) -> Iterator[None]:
        """Keep requests to URLs of this pattern from the service until the end of the block, and until there is one."""
        held: list[Route] = []
        self.page.route(url, lambda route: held.append(route))
        yield
        end = time.monotonic() + 30
        while not held:  # the page may show a change before it sends the request
            assert time.monotonic() < end, f"no request to {url}"
            self.page.wait_for_timeout(20)
        for route in held:
            route.continue_()
        self.page.unroute(url)

    def check_width(self, pixels: int) -> None:
        """Wait until the page is not wider than this. Charts follow a resized window a frame later. Raises TimeoutError."""
        self.page.wait_for_function("most => document.documentElement.scrollWidth <= most", arg=pixels)

    def check_accessibility(self) -> None:
        """Raise AssertionError with what axe finds on the page as it is."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE.read_text())
        # What the page passed is long and takes longer to transfer than to find.
        violations: list[dict[str, Any]] = self.page.evaluate(
            "axe.run({resultTypes: ['violations']}).then((all) => all.violations)"
        )
        found = [f"{one['id']}: {node['html'][:200]}" for one in violations for node in one["nodes"]]
        assert not found, "\n".join(found)
