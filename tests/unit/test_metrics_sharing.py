"""The figures of several processes are added up, whoever lives or has ended."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gridfleet.kernel import metrics
from gridfleet.kernel.metrics_sharing import Family, SharedMetrics, add_up, as_text, figures_of
from gridfleet.kernel.timings import Timings

PROGRAM = """
import os, sys
from pathlib import Path
from gridfleet.kernel import metrics
from gridfleet.kernel.metrics_sharing import SharedMetrics
shared = SharedMetrics(Path(sys.argv[1]))
shared.join("jobs")
metrics.MAILS.labels("sent").inc(int(sys.argv[2]))
metrics.UNROUTED_MESSAGES.set(int(sys.argv[2]))
metrics.PARTNER_VHOSTS.set(1)
metrics.HTTP_REQUEST_SECONDS.observe(0.02, "GET", "/x", 200)
shared.write()
print("written", flush=True)
if sys.argv[3] == "stay":
    sys.stdin.read()
os._exit(9)  # as if killed
"""


@pytest.fixture(autouse=True)
def nothing_counted_by_other_tests() -> None:
    """What this process itself has counted is in the sums too."""
    metrics.MAILS.clear()
    metrics.UNROUTED_MESSAGES.set(0)
    metrics.PARTNER_VHOSTS.set(0)


def start(folder: Path, mails: int, then: str = "end") -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(mails), then], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def value(families: list[Family], name: str, **labels: str) -> float | None:
    found = [value for family in families for sample, own, value in family.samples if sample == name and own == labels]
    assert len(found) <= 1
    return found[0] if found else None


def mails(families: list[Family]) -> float | None:
    return value(families, "gridfleet_mails_total", outcome="sent")


def test_living_processes_are_added_up_each_kind_of_figure_its_own_way(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    processes = [start(folder, 3, "stay"), start(folder, 4, "stay")]
    try:
        found = SharedMetrics(folder).read()
        assert mails(found) == 7
        assert value(found, "gridfleet_unrouted_messages") == 4
        assert value(found, "gridfleet_partner_vhosts") == 2
        labels = {"method": "GET", "route": "/x", "status": "200"}
        assert value(found, "gridfleet_http_request_seconds_count", **labels) == 2
        assert value(found, "gridfleet_http_request_seconds_bucket", le="0.01", **labels) == 0
        assert value(found, "gridfleet_http_request_seconds_bucket", le="0.025", **labels) == 2
    finally:
        for process in processes:
            process.communicate()
    ended = SharedMetrics(folder).read()
    assert mails(ended) == 7
    assert value(ended, "gridfleet_partner_vhosts") == 0, "only what this process itself has"


def test_restarts_leave_nothing_behind_and_no_sum_falls(tmp_path: Path) -> None:
    sums = []
    for turn in range(1, 4):
        start(tmp_path, turn).communicate()
        sums.append(mails(SharedMetrics(tmp_path).read()))
    assert sums == [1, 3, 6]
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "ended.json"}


def test_starts_alone_clear_up_after_processes_that_ended(tmp_path: Path) -> None:
    for _ in range(3):
        start(tmp_path, 1).communicate()
    assert len(list(tmp_path.iterdir())) == 4  # the last one's two files, and the two of the folder
    assert mails(SharedMetrics(tmp_path).read()) == 3


def test_who_is_killed_while_figures_are_moved_does_not_make_them_count_twice(tmp_path: Path) -> None:
    start(tmp_path, 5).communicate()
    own = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("jobs.")}
    assert mails(SharedMetrics(tmp_path).read()) == 5
    for name, content in own.items():  # they were moved, and not removed yet
        (tmp_path / name).write_bytes(content)
    assert mails(SharedMetrics(tmp_path).read()) == 5
    assert mails(SharedMetrics(tmp_path).read()) == 5


def test_a_folder_that_cannot_be_written_hides_only_the_others(tmp_path: Path) -> None:
    (tmp_path / "metrics").write_text("a file stands in the way")
    shared = SharedMetrics(tmp_path / "metrics")
    shared.join("serve")
    shared.write()
    assert value(shared.read(), metrics.UNROUTED_MESSAGES._name) is not None


def test_a_broken_file_is_passed_over(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "stay")
    (tmp_path / "jobs.torn.json").write_text('{"families": [')
    try:
        assert mails(SharedMetrics(tmp_path).read()) == 2
    finally:
        process.communicate()


def test_the_text_can_be_read_by_a_scraper() -> None:
    registry = CollectorRegistry(auto_describe=True)
    timings = Timings("gridfleet_test_seconds", "Test.", ("kind",), bounds=(0.1, 1), registry=registry)
    for seconds in (0.05, 0.1, 0.5, 7):
        timings.observe(seconds, 'a "quoted"')
    text = as_text(add_up([figures_of(registry), figures_of(registry)])).decode()
    assert "# TYPE gridfleet_test_seconds histogram\n" in text
    label = 'kind="a \\"quoted\\""'
    assert f'gridfleet_test_seconds_bucket{{{label},le="0.1"}} 4.0\n' in text
    assert f'gridfleet_test_seconds_bucket{{{label},le="+Inf"}} 8.0\n' in text
    assert f"gridfleet_test_seconds_count{{{label}}} 8.0\n" in text
    assert f"gridfleet_test_seconds_sum{{{label}}} 15.3\n" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_ends_no_process(tmp_path: Path) -> None:
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], check=False, capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        shared = SharedMetrics(tmp_path)
        shared.join("serve")
        shared.write()
        with contextlib.suppress(OSError), (tmp_path / "other").open("wb", buffering=0) as filler:
            while filler.write(b" " * 4096):
                continue
        assert not os.statvfs(tmp_path).f_bfree
        shared.write()
        assert value(shared.read(), "gridfleet_unrouted_messages") is not None
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=False)
