"""Writes the tables of docs/settings.md, docs/metrics.md and docs/partners.md from the code: run it after adding a setting, a
metric or an endpoint.

    .venv/bin/python scripts/write_references.py

Only what stands between the two marker lines of each page is replaced; the words around it are written by hand.
`tests/architecture/test_docs.py` fails while a page differs from what this would write.
"""

import typing
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo

from gridfleet.api._http.endpoint import ENDPOINTS
from gridfleet.api._http.registry import import_handlers
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel import metrics
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.timings import Timings

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN = "<!-- begin: scripts/write_references.py -->"
END = "<!-- end -->"

COMPUTED = {"ingest_processes": "half the cores, at least 1"}
"""Defaults that depend on the machine, in words."""


def settings_table() -> str:
    """Every environment variable, in the order of the class."""
    return _table(
        ("variable", "default", "meaning"),
        (
            (f"`GRIDFLEET_{name.upper()}`", _default(name, setting), f"{setting.description}{_choices(setting)}")
            for name, setting in Settings.model_fields.items()
        ),
    )


def metrics_table() -> str:
    """Every metric by its name at the scraper, sorted."""
    return _table(
        ("metric", "type", "labels", "meaning"),
        sorted((f"`{_name(each)}`", str(each._type), _labels(each), each._documentation) for each in metrics.all_metrics()),
    )


def scopes_table() -> str:
    """What each scope opens over REST, and the scopes that open nothing there."""
    import_handlers()
    opened = {scope: [place for place, endpoint in ENDPOINTS.items() if endpoint.caller.scope == scope] for scope in Scope}
    return _table(
        ("scope", "REST endpoints"),
        (
            (f"`{scope}`", "<br>".join(f"`{method} {path}`" for method, path in sorted(places, key=lambda at: at[::-1])) or "–")
            for scope, places in opened.items()
        ),
    )


PAGES = {"settings.md": settings_table, "metrics.md": metrics_table, "partners.md": scopes_table}


def written(page: str) -> str:
    """The page with a fresh table."""
    head, _, rest = (DOCS / page).read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{PAGES[page]()}\n{END}{tail}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _default(name: str, setting: FieldInfo) -> str:
    if setting.default_factory is not None:
        return COMPUTED[name]
    return "–" if setting.default in (None, "", ()) else f"`{setting.default}`"


def _choices(setting: FieldInfo) -> str:
    if typing.get_origin(setting.annotation) is not typing.Literal:
        return ""
    return f" One of {', '.join(f'`{choice}`' for choice in typing.get_args(setting.annotation))}."


def _name(metric: MetricWrapperBase | Timings) -> str:
    # The library keeps a counter's name without the suffix that it is scraped with.
    return f"{metric._name}_total" if metric._type == "counter" else metric._name


def _labels(metric: MetricWrapperBase | Timings) -> str:
    return ", ".join(f"`{label}`" for label in metric._labelnames) or "–"


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(written(page))
