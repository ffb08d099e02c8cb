"""Measures are written in one form, rounded and sorted, and beside their goals."""

import json
from pathlib import Path

import pytest
from bench.freshness import Freshness
from bench.lists import UNPAGED
from bench.lists import measures_of as measures_of_lists
from bench.many_plants import Found
from bench.many_plants import measures_of as measures_of_many_plants
from bench.measures import QUICK_RESULTS, RESULTS, Measure, folder_of, options, read_measures, show, significant, write_measures
from bench.memory import measures_of as measures_of_memory
from bench.report import freshness_measures

MIB = 1 << 20


@pytest.mark.parametrize(
    ("value", "rounded"), [(595_436, 595_000), (0.65849, 0.658), (14.671, 14.7), (0.0, 0), (1_000.4, 1_000), (99.96, 100)]
)
def test_figures_are_rounded_to_what_two_runs_share(value: float, rounded: float) -> None:
    assert significant(value) == rounded


@pytest.mark.parametrize(
    ("measure", "reached"),
    [
        (Measure(60, "ms", 60, "lower"), True),
        (Measure(61, "ms", 60, "lower"), False),
        (Measure(0.9, "", 0.9, "higher"), True),
        (Measure(0.89, "", 0.9, "higher"), False),
        (Measure(1, "s", None, "lower"), None),
    ],
)
def test_a_goal_is_reached_in_the_direction_that_is_better(measure: Measure, reached: bool | None) -> None:
    assert measure.reached is reached


def test_a_file_has_every_measure_sorted_also_those_that_miss_their_goals(tmp_path: Path) -> None:
    measures = {"p99": Measure(365.31, "ms", 200.0, "lower"), "live": Measure(403_168, "points/s", None, "higher")}

    path = write_measures("freshness", measures, tmp_path / "results")

    assert list(json.loads(path.read_text())) == ["live", "p99"]
    assert json.loads(path.read_text())["p99"] == {"value": 365, "unit": "ms", "goal": 200.0, "better": "lower"}
    assert write_measures("again", dict(reversed(measures.items())), tmp_path).read_text() == path.read_text()
    assert read_measures(path)["live"] == Measure(403_000, "points/s", None, "higher")


def test_a_table_names_what_misses_its_goal(capsys: pytest.CaptureFixture[str]) -> None:
    show("freshness", {"at_10_percent_p99": Measure(365.31, "ms", 200.0, "lower"), "p50": Measure(50, "ms", 60.0, "lower")})
    lines = capsys.readouterr().out.splitlines()
    missed, reached = (next(line for line in lines if key in line) for key in ("p99", "p50"))
    assert "365" in missed
    assert "≤ 200" in missed
    assert "MISSED" in missed
    assert "yes" in reached


def test_a_quick_run_does_not_replace_the_figures_of_a_full_one() -> None:
    parser = options("ingest", None)
    assert folder_of(parser.parse_args([])) == RESULTS
    assert folder_of(parser.parse_args(["--quick"])) == QUICK_RESULTS
    assert folder_of(parser.parse_args(["--quick", "--output", "here"])) == Path("here")


def test_the_curve_has_goals_at_every_rate() -> None:
    seconds = [number / 1000 for number in range(1, 101)]
    curve = {percent: Freshness(seconds, percent * 1000.0) for percent in (10, 60)}

    measures = freshness_measures(curve)

    assert measures["at_10_percent_p50"] == Measure(pytest.approx(51.0), "ms", 60.0, "lower")
    assert measures["at_60_percent_p99"] == Measure(pytest.approx(100.0), "ms", 200.0, "lower")
    assert measures["at_60_percent_points_per_second"].value == 60_000


def test_many_plants_are_compared_by_medians() -> None:
    few = Found([500_000.0, 600_000.0, 100_000.0], 300_000.0, Freshness([0.1], 0.0))
    many = Found([450_000.0, 100_000.0, 700_000.0], 200_000.0, Freshness([0.3], 0.0))

    measures = measures_of_many_plants(few, many)

    assert measures["throughput_ratio"] == Measure(0.9, "of the few plants", 0.9, "higher")
    assert measures["many_p99"] == Measure(300.0, "ms", 250.0, "lower")
    assert measures["few_p99"].goal is None


def test_the_slowest_page_is_that_of_a_list_with_pages() -> None:
    times = {"an empty route": [9.0], "plants, any page": [0.012], "groups": [0.019], UNPAGED: [0.14], "one plant": [2.0]}

    measures = measures_of_lists(times)

    assert measures["slowest_page_p99"] == Measure(pytest.approx(19.0), "ms", 15.0, "lower")
    assert measures["available_plants_of_a_group_p99"] == Measure(pytest.approx(140.0), "ms", 60.0, "lower")
    assert measures["plants_any_page_p50"].goal is None


def test_the_memory_of_all_processes_is_the_sum_of_the_parts() -> None:
    measures = measures_of_memory({"serve": 100 * MIB, "ingest-1": 60 * MIB, "postgres": 200 * MIB})
    assert measures["all_processes"] == Measure(360.0, "MiB", 350.0, "lower")
    assert measures["ingest_1"].value == 60
