"""The benchmark at its smallest: it runs, its sums match, its results are complete. Speed is not tested here."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from bench.against import COMPARED, read_figures
from bench.fleet_api import ROWS
from bench.load import Frame, Ledger
from bench.measures import read_measures
from bench.meter import verify
from bench.stack import BenchFailed
from bench.trace import STAGES

ROOT = Path(__file__).parent.parent.parent
SOURCE, LAYOUT = 7, 1


def run(module: str, *arguments: str) -> str:
    """Run a benchmark and return its output. Wrong sums end it with an error."""
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_the_benchmark_of_the_ingest_writes_complete_results(tmp_path: Path) -> None:
    output = run("ingest", "--tiny", "--output", str(tmp_path))
    assert {path.stem for path in tmp_path.glob("*.json")} == {"ingest", "peers", "freshness", "reads"}
    assert "fsync on" in (tmp_path / "machine.txt").read_text()
    ingest = read_measures(tmp_path / "ingest.json")
    for size in ("", "messages_of_10_", "messages_of_600_"):
        rate, limit = ingest[f"{size}points_per_second"].value, ingest[f"{size}limit"].value
        assert rate > 0
        assert ingest[f"{size}of_limit"].value == pytest.approx(rate / limit, rel=0.05)
        assert ingest[f"{size}bytes_per_point"].value > 8
    assert ingest["cpu"].value == pytest.approx(
        sum(ingest[f"cpu_{part}"].value for part in ("ingest", "postgres", "broker")), rel=0.05
    )
    freshness = read_measures(tmp_path / "freshness.json")
    for percent in (10, 50):
        p50, p99 = (freshness[f"at_{percent}_percent_p{share}"] for share in (50, 99))
        assert 0 < p50.value <= p99.value
        assert (p50.goal, p99.goal) == (60, 200)
    assert "at 50 percent p99" in output
    figures = read_figures(tmp_path)
    assert all(figures[one.measure] > 0 for one in COMPARED)


@pytest.mark.slow
def test_the_benchmark_of_many_plants_compares_two_fleets(tmp_path: Path) -> None:
    run("many_plants", "--tiny", "--few", "10", "--many", "40", "--output", str(tmp_path))
    found = read_measures(tmp_path / "many_plants.json")
    ratio = found["many_points_per_second"].value / found["few_points_per_second"].value
    assert found["throughput_ratio"].value == pytest.approx(ratio, rel=0.05)
    assert found["many_p99"].goal == 250


@pytest.mark.slow
def test_the_benchmark_of_roll_ups_reads_the_devices_that_it_filled(tmp_path: Path) -> None:
    # A missing quarter of an hour ends it with an error.
    run("history", "--quick", "--plants", "10", "--days", "1", "--requests", "5", "--output", str(tmp_path))
    found = read_measures(tmp_path / "history.json")
    assert found["export_csv_points_per_second"].value > 0
    assert found["30_days_in_15_minutes_p99"].goal == 30


@pytest.mark.slow
def test_a_trace_follows_messages_through_every_stage() -> None:
    output = run("trace", "6000", "--seconds", "1", "--plants", "20", "--patience", "0")
    assert all(stage in output for stage in STAGES)
    assert "publish to found" in output


@pytest.mark.slow
def test_a_short_soak_finds_everything_in_its_place() -> None:
    size = ["--plants", "20", "--sites", "2", "--visitors", "2", "--minutes", "0.3", "--warm-up", "0", "--limit", "1000"]
    # A lost value, a failed answer, an error in a log or a closed connection ends it with an error.
    output = run("soak", *size)
    assert "20 plants, " in output
    assert "all stored" in output


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


@pytest.mark.slow
def test_the_benchmark_of_the_fleet_asks_for_every_row(tmp_path: Path) -> None:
    sizes = ["--plants", "50", "--others", "20", "--requests", "2"]
    run("fleet_api", "--quick", *sizes, "--output", str(tmp_path))
    found = read_measures(tmp_path / "fleet_api.json")
    assert len(found) == 2 * len(ROWS)
    assert found["fleet_summary_p99"].goal == 30
    assert {one.goal for name, one in found.items() if name.startswith("fleet_plants_by") and name.endswith("p99")} == {50}


@pytest.mark.slow
def test_the_benchmark_of_the_console_measures_every_budget(tmp_path: Path) -> None:
    run("console", "--plants", "200", "--rounds", "1", "--points", "2000", "--values", "2", "--output", str(tmp_path))
    found = read_measures(tmp_path / "console.json")
    assert found["scripts_before_first_page"].value > found["scripts_of_fleet"].value > 0
    times = ("first_contentful_paint", "fleet_first_rows", "fleet_after_a_filter", "chart_drawn", "publish_to_screen_p99")
    assert all(found[name].value > 0 and found[name].goal is not None for name in times)
    drawn, zoomed = (found[f"chart_of_100000_points_{done}"] for done in ("drawn", "zoomed"))
    assert min(drawn.value, zoomed.value) > 0
    assert (drawn.goal, zoomed.goal) == (100, 120)
