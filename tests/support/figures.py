"""What tests of faults measure, each figure beside its goal."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Protocol

import pytest
from bench.measures import Measure, show, write_measures

_PREFIX = "figure: "


class Figure(Protocol):
    """Note a figure of a test. Of the same name in one run, the worst is listed."""

    def __call__(
        self, name: str, value: float, unit: str, goal: float, better: Literal["higher", "lower"] = "lower"
    ) -> None: ...


def figure_of(record: Callable[[str, object], None]) -> Figure:
    """Return a function that notes figures in a test's report, which a worker passes to the main session."""

    def note(name: str, value: float, unit: str, goal: float, better: Literal["higher", "lower"] = "lower") -> None:
        record(_PREFIX + name, (value, unit, goal, better))

    return note


def report_figures(reports: Iterable[pytest.TestReport], written_to: Path | None) -> None:
    """Print the figures of all tests, and write them to a file if there is one."""
    measures: dict[str, Measure] = {}
    for report in reports:
        for name, value in report.user_properties if report.when == "call" else ():
            if name.startswith(_PREFIX):
                name, measure = name.removeprefix(_PREFIX), Measure(*value)  # type: ignore[misc]
                worst = max if measure.better == "lower" else min
                measures[name] = worst(measures.get(name, measure), measure)
    if measures:
        show("figures", measures)
        if written_to is not None:
            write_measures(written_to.stem, measures, written_to.parent)
