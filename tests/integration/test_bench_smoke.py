"""The benchmark at its smallest: it runs, its sums match, its results are complete. Speed is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from bench.against import COMPARED
from bench.load import Frame, Ledger
from bench.meter import verify
from bench.stack import BenchFailed

ROOT = Path(__file__).parent.parent.parent
SOURCE, LAYOUT = 7, 1


@pytest.mark.slow
def test_the_whole_benchmark_runs_and_writes_complete_results(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.ingest", "--tiny", "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # Wrong sums end it with an error.
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(output.read_text())
    assert found.keys() == {"date", "machine", "ingest", "peers", "live", "freshness", "rest"}
    assert found["machine"]["fsync"] is True
    ingest = found["ingest"]
    assert ingest["other_message_sizes"].keys() == {"10", "600"}
    for size in (ingest, *ingest["other_message_sizes"].values()):
        assert size["points_per_second"] > 0
        assert size["ratio"] == pytest.approx(size["points_per_second"] / size["limit_points_per_second"], abs=0.01)
        assert size["bytes_per_point"] > 8
        assert size["limit_cpu_microseconds_per_point"].keys() == {"store", "prepare", "transport"}
    assert found["peers"].keys() == {"executemany", "copy"}
    assert found["freshness"]["p50_milliseconds"] <= found["freshness"]["p99_milliseconds"]
    assert "ingest, broker to committed" in done.stdout
    assert all(one.of(found) > 0 for one in COMPARED)


@pytest.mark.slow
def test_a_short_soak_finds_everything_in_its_place() -> None:
    size = ["--plants", "20", "--sites", "2", "--visitors", "2", "--minutes", "0.3", "--warm-up", "0", "--limit", "1000"]
    done = subprocess.run([sys.executable, "-m", "bench.soak", *size], cwd=ROOT, capture_output=True, text=True, check=False)
    # A lost value, a failed answer, an error in a log or a closed connection ends it with an error.
    assert done.returncode == 0, done.stderr[-4000:]
    assert "20 plants, " in done.stdout
    assert "all stored" in done.stdout


def store(database_url: str, frame: Frame, **changes: int) -> None:
    """Puts a frame into the table; `changes` are values by place that differ from what the ledger has."""
    values = [None if value is None else value / 100 for value in frame.values]
    for place, value in changes.items():
        values[int(place.removeprefix("place_"))] = value / 100
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE telemetry_frame_all PARTITION OF telemetry_frame DEFAULT")
        connection.execute(
            "INSERT INTO telemetry_frame (source_id, layout_id, time, vals) VALUES (%s, %s, to_timestamp(%s), %s)",
            (frame.source_id, LAYOUT, frame.time, values),
        )


def ledger_of(*frames: Frame) -> Ledger:
    """A sender's ledger of these frames."""
    ledger = Ledger()
    for frame in frames:
        ledger.add(frame)
    return ledger


FRAME = Frame(SOURCE, 1_795_168_800, [1234, None, 5678])


def test_a_table_that_holds_what_was_sent_passes(database_url: str) -> None:
    store(database_url, FRAME)
    verify(database_url, ledger_of(FRAME))


def test_a_missing_frame_is_noticed(database_url: str) -> None:
    store(database_url, FRAME)
    with pytest.raises(BenchFailed, match="source 7"):
        verify(database_url, ledger_of(FRAME, FRAME._replace(time=FRAME.time + 10)))


def test_exchanged_values_are_noticed_although_their_sum_is_right(database_url: str) -> None:
    store(database_url, FRAME, place_0=5678, place_2=1234)
    with pytest.raises(BenchFailed, match="1 sources differ"):
        verify(database_url, ledger_of(FRAME))


def test_a_frame_at_another_time_is_noticed(database_url: str) -> None:
    store(database_url, FRAME._replace(time=FRAME.time + 10))
    with pytest.raises(BenchFailed, match="1 sources differ"):
        verify(database_url, ledger_of(FRAME))
