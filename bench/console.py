"""`python -m bench.console`: what the browser loads and how fast the console shows it, in Chromium on the same machine.

The fleet is that of `bench.fleet_api`; one plant has a day of values of four metrics, ten seconds apart. Each time is measured
within the page: from the start of the navigation, or from the user's action, to the frame after the change of the page.
`bench.console_chart` describes a chart of many points, `bench.console_live` values that a plant publishes. Needs Chromium, as
the tests do, and the built console.
"""

import gzip
import json
import os
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit
from uuid import UUID

import uvloop
from playwright.sync_api import Page, sync_playwright

import gridfleet.api.console
from bench.client import percentile
from bench.console_chart import DRAWN, ZOOMED, time_large_chart
from bench.console_live import time_values
from bench.fleet_api import fill_fleet
from bench.lists import Ids
from bench.measures import Measure, folder_of, options, report
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack, running_stack
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.frames.models import FrameLayout
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache, Partitions
from gridfleet.kernel.db import open_database

__all__ = ["main", "measures_of"]

_SLUG: Final = "bench-0"
_METRICS: Final = ("pv", "battery", "grid", "load")
_POINTS: Final = 8_640
_SCREENS: Final = ("fleet", "alerts", "rules", "groups", "templates", "trading", "partners", "people", "audit", "me")
_PLANT_SCREENS: Final = (
    "live",
    "history",
    "energy",
    "devices",
    "commands",
    "messages",
    "alerts",
    "trading",
    "credentials",
    "audit",
)
_BUDGET_OF_FIRST_PAGE: Final = 130.0
_BUDGET_OF_ROUTE: Final = 30.0
_BUDGET_OF_LIVE: Final = 1_500.0

_NOTE_TIMES: Final = """
for (const [name, selector] of [['row', 'tbody tr'], ['chart', '.chart canvas']])
  new MutationObserver((_, observer) => {
    if (!document.querySelector(selector)) return
    observer.disconnect()
    requestAnimationFrame(() => setTimeout(() => performance.mark(name)))
  }).observe(document, {childList: true, subtree: true})
"""
"""Mark when the first row of a table, and the first chart, are on the screen."""
_MARK: Final = "name => performance.getEntriesByName(name)[0]?.startTime"
_REQUEST: Final = """
part => performance.getEntriesByType('resource').find(({name}) => name.includes(part)).startTime
"""
_FILTER: Final = """
label => new Promise(resolve => {
  const total = document.querySelector('[role=status]'), before = total.textContent, began = performance.now()
  new MutationObserver((_, observer) => {
    if (total.textContent === before || total.textContent === '') return
    observer.disconnect()
    requestAnimationFrame(() => resolve(performance.now() - began))
  }).observe(document.body, {childList: true, subtree: true, characterData: true})
  const select = [...document.querySelectorAll('label')].find(one => one.textContent.startsWith(label)).querySelector('select')
  select.value = 'OFFLINE'
  select.dispatchEvent(new Event('change', {bubbles: true}))
})
"""


def main() -> None:
    """Measure, print and write the result `console`."""
    arguments = options("console", __doc__)
    arguments.add_argument("--plants", type=int, help="20,000; if quick 2,000")
    arguments.add_argument("--rounds", type=int, help="of each time: 15; if quick 3")
    arguments.add_argument("--points", type=int, default=100_000, help="of each metric of the large chart")
    arguments.add_argument("--values", type=int, help="that a plant publishes: 200; if quick 20")
    chosen = arguments.parse_args()
    plants, rounds, values = (2_000, 3, 20) if chosen.quick else (20_000, 15, 200)
    plants, rounds = chosen.plants or plants, chosen.rounds or rounds
    with running_stack() as stack:
        ids = fill_fleet(stack, plants, plants // 2)
        uvloop.run(_fill_history(stack, UUID(ids.plants[0])))
        stack.start_api()
        with _browser(stack) as page:
            sizes = _sizes(page, ids)
            times = _times(page, ids, rounds)
            times |= time_large_chart(page, _SLUG, ids.plants[0], _METRICS, chosen.points, rounds)
            live = time_values(stack, page, _SLUG, ids.plants[1], chosen.values or values)
    report("console", measures_of(sizes, times, live), folder_of(chosen))


def measures_of(sizes: Mapping[str, int], times: Mapping[str, Sequence[float]], live: Sequence[float]) -> dict[str, Measure]:
    """Return the measures.

    Args:
        sizes: Compressed bytes of the scripts before the first page, as `first page`, and of those that a route adds.
        times: Milliseconds of each kind, one for each round.
        live: Milliseconds from the publish of each value to the screen.
    """
    goals = {
        "first_contentful_paint": 500.0,
        "fleet_first_rows": 500.0,
        "fleet_after_a_filter": 200.0,
        "chart_drawn": 300.0,
        DRAWN: 100.0,
        ZOOMED: 120.0,
    }
    return {
        "scripts_before_first_page": Measure(sizes["first page"] / 1e3, "kB gz", _BUDGET_OF_FIRST_PAGE, "lower"),
        **{
            f"scripts_of_{name}": Measure(size / 1e3, "kB gz", _BUDGET_OF_ROUTE, "lower")
            for name, size in sizes.items()
            if name != "first page"
        },
        **{name: Measure(statistics.median(times[name]), "ms", goal, "lower") for name, goal in goals.items()},
        **{f"{name}_slowest": Measure(max(times[name]), "ms", None, "lower") for name in goals},
        "publish_to_screen_p50": Measure(percentile(live, 0.5), "ms", None, "lower"),
        "publish_to_screen_p99": Measure(percentile(live), "ms", _BUDGET_OF_LIVE, "lower"),
    }


async def _fill_history(stack: Stack, plant: UUID) -> None:
    """Store a day of values of four metrics of one plant."""
    layout = FrameLayout(tuple(Metric(name, "kW") for name in _METRICS))
    end = datetime.now(UTC).replace(microsecond=0)
    start = end - timedelta(seconds=10 * (_POINTS - 1))
    async with open_database(stack.database_url, name="bench", size=2) as database:
        await Partitions(database).ensure({start.date(), end.date()})
        async with database.transaction() as db:
            layout_id = await LayoutIdCache().id_of(db, layout)
            await db.execute(
                "WITH source AS (INSERT INTO telemetry_source (organization_id, plant_id)"
                " SELECT organization_id, id FROM plant WHERE id = %s RETURNING id)"
                " INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
                " SELECT id, %s, t, ARRAY[50 + random(), random(), random() - 0.5, random() * 3]::float8[]"
                " FROM source, generate_series(%s::timestamptz, %s::timestamptz, '10 s') t",
                (plant, layout_id, start, end),
            )


@contextmanager
def _browser(stack: Stack) -> Iterator[Page]:
    """Yield a page of Chromium."""
    programs = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None or not (Path(gridfleet.api.console.__file__).parent / "site" / "built").exists():
        raise BenchFailed("Chromium and the built console are needed: run `make test` or `make console` first")
    arguments = ["--disable-gpu", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        page = browser.new_page(base_url=stack.api_url, locale="en-GB")
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def _sizes(page: Page, ids: Ids) -> dict[str, int]:
    """Log the SuperAdmin in. Return the compressed bytes of scripts of the login, and of those that each route adds."""
    known = _scripts(page, "/console/login")
    found = {"first page": sum(known.values())}
    page.get_by_label("E-mail address").fill(ADMIN_EMAIL)
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", level=1, name="Fleet").wait_for()
    plant = {f"plant_{screen}": f"plants/{ids.plants[0]}/{screen}" for screen in _PLANT_SCREENS}
    for name, path in ({screen: screen for screen in _SCREENS} | plant).items():
        scripts = _scripts(page, f"/console/o/{_SLUG}/{path}")
        found[name] = sum(size for one, size in scripts.items() if one not in known)
        if name == _SCREENS[0]:
            known |= scripts  # the frame of all further pages
    return found


def _scripts(page: Page, path: str) -> dict[str, int]:
    """Return the scripts that a page has loaded, and the bytes of each with gzip."""
    page.goto(path)
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(500)
    names = json.loads(page.evaluate("JSON.stringify(performance.getEntriesByType('resource').map(({name}) => name))"))
    files = Path(gridfleet.api.console.__file__).parent / "site"
    paths = {urlsplit(name).path.removeprefix("/console/") for name in names}
    return {one: len(gzip.compress((files / one).read_bytes(), 9)) for one in paths if one.endswith(".js")}


def _times(page: Page, ids: Ids, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each round."""
    times: dict[str, list[float]] = {
        name: [] for name in ("first_contentful_paint", "fleet_first_rows", "fleet_after_a_filter", "chart_drawn")
    }
    metrics = quote(json.dumps(_METRICS))
    page.add_init_script(_NOTE_TIMES)
    for _ in range(rounds):
        page.goto(f"/console/o/{_SLUG}/fleet")
        times["fleet_first_rows"].append(_mark(page, "row"))
        times["first_contentful_paint"].append(_mark(page, "first-contentful-paint"))
        times["fleet_after_a_filter"].append(page.evaluate(_FILTER, "Status"))
        page.goto(f"/console/o/{_SLUG}/plants/{ids.plants[0]}/history?last=24h&metrics={metrics}")
        times["chart_drawn"].append(_mark(page, "chart") - page.evaluate(_REQUEST, "/telemetry/columns"))
    return times


def _mark(page: Page, name: str) -> float:
    """Return when an entry of the page's timeline began, in milliseconds since the navigation, as soon as it is there."""
    page.wait_for_function(_MARK, arg=name)
    return float(page.evaluate(_MARK, name))


if __name__ == "__main__":
    main()
