"""What two benchmarks can compare depends on how much they measured."""

import json
from pathlib import Path

from bench.against import COMPARED, compared, read_figures
from bench.measures import Measure, write_measures


def test_full_benchmarks_compare_every_figure() -> None:
    assert compared(["--patience", "60"]) == list(COMPARED)


def test_short_benchmarks_compare_no_99th_percentile_of_a_few_samples() -> None:
    left_out = [one.label for one in COMPARED if one not in compared(["--quick"])]
    assert left_out == [one.label for one in COMPARED if "p99" in one.label]
    assert len(left_out) == 3


def test_results_of_older_revisions_have_the_same_measures(tmp_path: Path) -> None:
    of_size = {
        "points_per_second": 600_000,
        "ratio": 0.66,
        "bytes_per_point": 14.67,
        "cpu_microseconds_per_point": {"broker": 0.5, "postgres": 0.5, "ingest": 1.5},
    }
    nested = {
        "ingest": {**of_size, "other_message_sizes": {"10": {**of_size, "points_per_second": 70_000}}},
        "live": {"points_per_second": 400_000},
        "freshness": {"p50_milliseconds": 111.0, "p99_milliseconds": 365.3},
        "rest": {"day_of_one_signal_p99_milliseconds": 25.4, "latest_p99_milliseconds": 4.4, "latest_to_empty": 0.14},
    }
    file = tmp_path / "figures"
    file.write_text(json.dumps(nested))

    figures = read_figures(file)

    assert all(one.measure in figures for one in COMPARED)
    assert figures["ingest.cpu"] == 2.5
    assert figures["ingest.messages_of_10_points_per_second"] == 70_000


def test_results_of_this_revision_are_read_by_file_and_measure(tmp_path: Path) -> None:
    write_measures("ingest", {"cpu": Measure(2.5, "µs a point", None, "lower")}, tmp_path)
    write_measures("reads", {"latest_p99": Measure(4.4, "ms", 3.0, "lower")}, tmp_path)

    assert read_figures(tmp_path) == {"ingest.cpu": 2.5, "reads.latest_p99": 4.4}


def test_goals_against_another_revision_are_those_of_rates_and_cpu_time() -> None:
    goals = {one.measure: one.goal for one in COMPARED if one.goal is not None}
    assert goals == {"ingest.points_per_second": 1.5, "ingest.messages_of_10_points_per_second": 1.5, "ingest.cpu": 0.7}
