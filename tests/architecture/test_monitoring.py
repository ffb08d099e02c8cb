"""Dashboard and alerts name metrics and labels that exist, alerts say what to do, and no label names a tenant."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridfleet.kernel import metrics

ROOT = Path(__file__).resolve().parents[2]
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "gridfleet.json").read_text())
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + [(title, target["expr"]) for title, target in TARGETS]

LABELS = {
    "ack", "answer", "backend", "call", "certificate", "channel", "client", "consumer", "event", "kind", "method", "name",
    "outcome", "pool", "process", "question", "queue", "reason", "result", "route", "severity", "state", "status", "task",
}  # fmt: skip
"""Every label there may be. What has as many values as there are plants, people or organisations is none; nor is `job` or
`instance`, which scrapers set themselves."""

SCRAPERS = {"up": {"job", "instance"}}
ADDED = {"job", "instance"}
"""Labels that a scraper adds to everything."""

WORDS = {
    "absent", "and", "avg", "by", "count", "histogram_quantile", "ignoring", "increase", "max", "max_over_time", "min",
    "offset", "on", "or", "rate", "sum", "time", "topk", "unless", "without",
}  # fmt: skip


def series() -> dict[str, set[str]]:
    """Labels by name, of all that can be asked for."""
    found: dict[str, set[str]] = {}
    for metric in metrics.all_metrics():
        labels = set(metric._labelnames)
        if metric._type == "histogram":
            found |= {f"{metric._name}_{end}": labels for end in ("count", "sum")}
            found[f"{metric._name}_bucket"] = {*labels, "le"}
        else:
            found[f"{metric._name}_total" if metric._type == "counter" else metric._name] = labels
    return found | SCRAPERS


SERIES = series()


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """(metric, labels that are matched)."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\b(?:by|on|ignoring|without)\s*\([^)]*\)|\[[^]]*\]|\boffset \w+", "", bare)
    for name, inside in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?", bare):
        if name not in WORDS:
            yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))


def grouped(expression: str) -> set[str]:
    """Labels that it groups by; `absent` gives those it was asked with."""
    grouping = {label.strip() for found in re.findall(r"\bby\s*\(([^)]*)\)", expression) for label in found.split(",")}
    return grouping | {
        label for found in re.findall(r"absent\((.*?)\)", expression) for _, labels in selectors(found) for label in labels
    }


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[f"{n}-{where}" for n, (where, _) in enumerate(EXPRESSIONS)])
def test_expressions_name_what_exists(where: str, expression: str) -> None:
    found = list(selectors(expression))
    assert found
    for name, labels in found:
        assert name in SERIES, f"{where}: there is no {name}"
        assert labels <= SERIES[name] | ADDED, f"{where}: {name} has no {labels - SERIES[name]}"
    assert grouped(expression) <= set().union(*(SERIES[name] for name, _ in found)), where
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[f"{n}" for n, _ in enumerate(TARGETS)])
def test_legends_name_labels_that_are_left(title: str, target: dict[str, Any]) -> None:
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped(target["expr"]), title


@pytest.mark.parametrize(
    "panel", [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"], ids=lambda panel: panel["title"]
)
def test_panels_say_what_they_show(panel: dict[str, Any]) -> None:
    assert len(panel.get("description", "")) > 20
    assert panel["description"].endswith(".")


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for _, target in TARGETS for name, _ in selectors(target["expr"])}
    for metric in metrics.all_metrics():
        assert any(name.startswith(metric._name) for name in shown), metric._name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_say_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook_url"] == f"@DOCS_URL@/metrics.html#{rule['alert'].lower()}"
    page = (ROOT / "docs" / "metrics.md").read_text()
    section = re.search(rf"^### {rule['alert']}\n\n(.+?)\n(?:\n|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert len(section[1]) > 100
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert named <= grouped(rule["expr"]) | set().union(*(SERIES[name] for name, _ in selectors(rule["expr"])))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_no_alert_ends_before_its_cause(rule: dict[str, Any]) -> None:
    """What was so an hour ago is no longer so after an hour: a stop would then be reported as over while it lasts."""
    assert not re.search(r"\boffset\b", rule["expr"])


def test_every_section_of_an_alert_has_its_alert() -> None:
    sections = re.findall(r"^### (Gridfleet\w+)$", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in RULES]


def test_no_label_grows_with_the_fleet() -> None:
    for metric in metrics.all_metrics():
        assert set(metric._labelnames) <= LABELS, metric._name


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[f"{n}-{where}" for n, (where, _) in enumerate(EXPRESSIONS)])
def test_expressions_combine_processes(where: str, expression: str) -> None:
    """Every process has its own sample of each metric. Only what `serve` reads for all of them may stand alone."""
    on_request = {metric._name for metric in metrics.ON_REQUEST._collector_to_names}
    for name, _ in selectors(expression):
        combined = re.search(r"\b(?:sum|max|min|absent)\b[^{]*\b" + name, expression)
        assert name in on_request | SCRAPERS.keys() or combined, where


def test_selectors_of_an_expression_are_found() -> None:
    """So the tests above can fail."""
    found = dict(selectors('sum by (le) (rate(a_b{x=~"p|q",y="z"}[5m])) / on () max(c{d!="e"} offset 1h) > 0.5'))
    assert found == {"a_b": {"x", "y"}, "c": {"d"}}
