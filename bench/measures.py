"""The figures of a benchmark as `bench/results/NAME.json`, one object for each measure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

__all__ = ["RESULTS", "Measure", "write_measures"]

RESULTS: Final = Path(__file__).parent / "results"


class Measure(NamedTuple):
    """A measured figure. `goal` is None if none was set."""

    value: float
    unit: str
    goal: float | None
    better: Literal["higher", "lower"]

    @property
    def reached(self) -> bool | None:
        """Whether the value reaches the goal, or None without a goal."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "higher" else self.value <= self.goal


def write_measures(name: str, measures: Mapping[str, Measure], folder: Path = RESULTS) -> Path:
    """Write the measures, also those that miss their goals, and return the file's path."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({key: measure._asdict() for key, measure in measures.items()}, indent=2) + "\n")
    return path
