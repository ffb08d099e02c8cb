"""What two benchmarks can compare depends on how much they measured."""

from bench.against import COMPARED, compared


def test_full_benchmarks_compare_every_figure() -> None:
    assert compared(["--patience", "60"]) == list(COMPARED)


def test_short_benchmarks_compare_no_99th_percentile_of_a_few_samples() -> None:
    left_out = [one.label for one in COMPARED if one not in compared(["--quick"])]
    assert left_out == [one.label for one in COMPARED if "p99" in one.label]
    assert len(left_out) == 3
