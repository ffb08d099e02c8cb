"""How fast the console draws and zooms a chart of four metrics with many points, usually 100,000 each.

The service returns at most 40,000 values of a chart, so no response of its has that many points. The browser gets one that is
made here instead, in the same form, and the served console draws it as any other. Each metric has averages, minima and maxima,
so twelve series are drawn. The user zooms by selecting a part of the chart; the console then requests narrower buckets, and
gets as many points again. The requests are excluded: what is measured is the page's own work, from the parsed response to the
frame with the chart, and for the zoom also from the release of the mouse button to the request.
"""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Page, Route

__all__ = ["DRAWN", "ZOOMED", "time_large_chart"]

DRAWN: Final = "chart_of_100000_points_drawn"
ZOOMED: Final = "chart_of_100000_points_zoomed"
_END: Final = datetime(2026, 6, 1, tzinfo=UTC)
_COLUMNS: Final = "/api/v1/telemetry/columns"

_NOTE_CHARTS: Final = f"""
const parse = Response.prototype.json, send = window.fetch
window.fetch = (request, ...more) => {{
  if (request.url?.includes('{_COLUMNS}')) performance.mark('asked')
  return send(request, ...more)
}}
Response.prototype.json = async function () {{
  const data = await parse.call(this)
  if (this.url.includes('{_COLUMNS}')) performance.mark('answered')
  return data
}}
document.addEventListener('mouseup', () => performance.mark('released'), {{capture: true}})
new MutationObserver(changes => {{
  if (!changes.some(({{addedNodes}}) => [...addedNodes].some(node => node.matches?.('.uplot')))) return
  const start = performance.now()
  requestAnimationFrame(() => setTimeout(() => performance.measure('drawn', {{start}})))
}}).observe(document, {{childList: true, subtree: true}})
"""
"""Mark each request of columns, its parsed response and the end of each selection; measure until a new chart is on screen."""
_WORK: Final = """
() => {
  const entries = name => performance.getEntriesByName(name)
  const after = (name, time) => entries(name).find(({startTime}) => startTime >= time)
  const released = entries('released').at(-1)?.startTime ?? 0
  const asked = after('asked', released)?.startTime
  const answered = after('answered', asked)?.startTime
  const drawn = after('drawn', answered)
  return drawn && drawn.startTime + drawn.duration - answered + (released && asked - released)
}
"""
"""Return the milliseconds since the end of the selection, if there was one, without the request; undefined until drawn."""
_SETTLE_MILLISECONDS: Final = 2_000


def time_large_chart(
    page: Page, slug: str, plant_id: str, metrics: Sequence[str], points: int, rounds: int
) -> dict[str, list[float]]:
    """Return the milliseconds of `DRAWN` and `ZOOMED` of each round. The page must be logged in. `points`: of each metric."""
    columns = json.dumps(
        [
            {"metric": metric, "unit": "kW", **dict(zip(("average", "min", "max"), _values(points), strict=True))}
            for metric in metrics
        ]
    )
    page.add_init_script(_NOTE_CHARTS)
    page.route(f"**{_COLUMNS}?*", lambda route: _answer(route, columns, points))
    start = _END - timedelta(seconds=10 * points)
    query = f"from={quote(start.isoformat())}&to={quote(_END.isoformat())}&metrics={quote(json.dumps(metrics))}"
    times: dict[str, list[float]] = {DRAWN: [], ZOOMED: []}
    for _ in range(rounds):
        page.goto(f"/console/o/{slug}/plants/{plant_id}/history?{query}")
        times[DRAWN].append(_work(page))
        # The marks of alerts and commands are drawn with a new chart, which would end a selection.
        page.wait_for_timeout(_SETTLE_MILLISECONDS)
        box = page.locator(".u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.3, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
        page.mouse.up()
        times[ZOOMED].append(_work(page))
    page.unroute(f"**{_COLUMNS}?*")
    return times


def _values(points: int) -> tuple[list[float], list[float], list[float]]:
    """Return averages that wander as a power does, and minima and maxima around them."""
    averages, level = [], 50.0
    for _ in range(points):
        level += random.uniform(-1, 1)
        averages.append(round(level, 2))
    return (
        averages,
        [round(value - random.random(), 2) for value in averages],
        [round(value + random.random(), 2) for value in averages],
    )


def _answer(route: Route, columns: str, points: int) -> None:
    """Answer with as many points in whatever range was requested."""
    query = parse_qs(urlsplit(route.request.url).query)
    start, end = (datetime.fromisoformat(query[name][0]) for name in ("from", "to"))
    step = (end - start) / points
    times = json.dumps([(start + number * step).isoformat().replace("+00:00", "Z") for number in range(points)])
    body = f'{{"bucket": "10 seconds", "times": {times}, "columns": {columns}}}'
    route.fulfill(body=body, content_type="application/json")


def _work(page: Page) -> float:
    return float(page.wait_for_function(_WORK).json_value())
