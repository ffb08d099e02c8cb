"""The rate of an ingest is that of full batches, without the small ones of its start and end."""

import pytest
from bench.meter import Run, span
from bench.stack import BenchFailed


def test_the_span_begins_with_warm_caches_and_ends_while_the_window_is_full() -> None:
    commits = [(0.0, 1), (1.0, 100), (2.0, 100), (3.0, 100), (4.0, 100), (9.0, 1)]
    assert span(commits, points_in_flight=100) == Run(1.0, 3.0, 200)
    assert span(commits, points_in_flight=100).points_per_second == 100


def test_few_commits_make_the_shortest_span() -> None:
    assert span([(0.0, 10), (2.0, 30)], points_in_flight=1_000) == Run(0.0, 2.0, 30)


def test_one_commit_is_no_span() -> None:
    with pytest.raises(BenchFailed, match="1 commits are too few"):
        span([(0.0, 10)], points_in_flight=5)
