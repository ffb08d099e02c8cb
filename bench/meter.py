"""CPU time of the measured processes, and commits of the database over time."""

import bisect
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import psutil
import psycopg

from bench.load import Ledger
from bench.stack import BenchFailed, Stack

__all__ = [
    "CpuMeter",
    "Run",
    "all_cpu",
    "clear",
    "committed",
    "cpu_of",
    "cpu_of_stack",
    "own_cpu",
    "points_per_second_since",
    "span",
    "verify",
    "wait_until_quiet",
]

_SAMPLE_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 1.0
_QUIET_CORES: Final = 0.25
_VALUES: Final = "cardinality(vals) - cardinality(array_positions(vals, NULL))"
CpuReading = Callable[[], float]


def own_cpu() -> float:
    """Return the CPU seconds of this process so far."""
    return time.process_time()


def all_cpu() -> float:
    """Return the CPU seconds of the whole machine so far, including other programs."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def wait_until_quiet(seconds: float) -> None:
    """Wait until the machine is almost idle, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = all_cpu()
        time.sleep(_QUIET_SECONDS)
        if all_cpu() - before < _QUIET_CORES * _QUIET_SECONDS:
            return


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and of its awaited children, or 0 if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def cpu_of_postgres(server: psutil.Process) -> float:
    """Return the CPU seconds of the server and its backends. Ended backends are included in the server's own time."""
    return cpu_of(server) + sum(cpu_of(child) for child in server.children())


def cpu_of_stack(stack: Stack) -> dict[str, CpuReading]:
    """Return readings of the servers by name."""
    broker, postgres = stack.broker_process(), stack.postgres_process()
    return {"broker": lambda: cpu_of(broker), "postgres": lambda: cpu_of_postgres(postgres)}


class CpuMeter:
    """Continuous readings of CPU times, from which a span can be selected afterwards."""

    def __init__(self, readings: Mapping[str, CpuReading]) -> None:
        self._readings = readings
        self._samples: list[tuple[float, dict[str, float]]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator["CpuMeter"]:
        """Read in the background until the block ends."""
        ended = threading.Event()
        thread = threading.Thread(target=self._sample, args=(ended,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def between(self, start: float, end: float) -> dict[str, float]:
        """Return the CPU seconds by process between two times (epoch seconds), interpolated."""
        return {name: self._at(name, end) - self._at(name, start) for name in self._readings}

    def _sample(self, ended: threading.Event) -> None:
        while True:
            self._samples.append((time.time(), {name: reading() for name, reading in self._readings.items()}))
            if ended.wait(_SAMPLE_SECONDS):
                self._samples.append((time.time(), {name: reading() for name, reading in self._readings.items()}))
                return

    def _at(self, name: str, moment: float) -> float:
        place = bisect.bisect([at for at, _ in self._samples], moment)
        if not 0 < place < len(self._samples):
            raise BenchFailed("CPU time was not read over the whole span")
        (before, low), (after, high) = self._samples[place - 1], self._samples[place]
        return low[name] + (high[name] - low[name]) * (moment - before) / (after - before)


class Run(NamedTuple):
    """Commits between two times (epoch seconds)."""

    start: float
    end: float
    points: int

    @property
    def points_per_second(self) -> float:
        """The distinct points committed per second."""
        return self.points / (self.end - self.start)


def committed(
    url: str, points_in_flight: int, table: str = "telemetry_frame", values: str = _VALUES, *, since: float = 0.0
) -> Run:
    """Return the span of full load, without the work of the start and of the end.

    It begins with the commit by which half of `points_in_flight` are stored: a full batch of each process, so its caches are
    warm. It ends with the last commit before which more than `points_in_flight` waited. The work in progress at its beginning
    equals that at its end. Commits before `since` (epoch seconds) do not count.
    """
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            f"SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at, sum({values})::bigint"
            f" FROM {table} WHERE pg_xact_commit_timestamp(xmin) > to_timestamp(%s) GROUP BY xmin ORDER BY at",
            (since,),
        ).fetchall()
    return span(rows, points_in_flight)


def span(commits: Sequence[tuple[float, int]], points_in_flight: int) -> Run:
    """Return the span of full load of commits: time and points of each, in their order.

    Raises:
        BenchFailed: The commits are too few.
    """
    if len(commits) < 2:
        raise BenchFailed(f"{len(commits)} commits are too few to measure a rate")
    stored = list(accumulate(points for _, points in commits))
    warm = (number for number, points in enumerate(stored) if 2 * points >= points_in_flight)
    first = min(next(warm, len(commits)), len(commits) - 2)
    full = [number for number in range(first + 1, len(commits)) if stored[-1] - stored[number] >= points_in_flight]
    last = full[-1] if full else first + 1
    return Run(commits[first][0], commits[last][0], stored[last] - stored[first])


def points_per_second_since(url: str, start: float) -> float:
    """Return the points committed after `start` (epoch seconds) per second, up to the last commit."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            f"SELECT sum({_VALUES})::bigint, extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::float8"
            " FROM telemetry_frame WHERE pg_xact_commit_timestamp(xmin) > to_timestamp(%s)",
            (start,),
        ).fetchone()
    if row is None or row[0] is None:
        raise BenchFailed("nothing was committed")
    return float(row[0] / (row[1] - start))


def verify(url: str, ledger: Ledger) -> None:
    """Compare every source's values with what was sent. Raises BenchFailed for a difference."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT source_id, count(v), coalesce(sum(c), 0)::bigint, coalesce(sum(c * (place + 31 * (at % 1009))), 0)::bigint"
            " FROM (SELECT source_id, extract(epoch FROM time)::bigint AS at, vals FROM telemetry_frame) f,"
            " LATERAL (SELECT v, round(v * 100)::bigint AS c, place FROM unnest(vals) WITH ORDINALITY AS u (v, place)) e"
            " GROUP BY source_id"
        ).fetchall()
    stored = {row[0]: tuple(row[1:]) for row in rows}
    expected = {source: tuple(sums) for source, sums in ledger.sums.items()}
    if stored != expected:
        wrong = [source for source in stored.keys() | expected.keys() if stored.get(source) != expected.get(source)]
        example = wrong[0]
        raise BenchFailed(
            f"{len(wrong)} sources differ; source {example}: sent {expected.get(example)}, stored {stored.get(example)}"
        )


def clear(url: str) -> None:
    """Empty the telemetry tables and write all pages to disk, so that runs do not affect each other."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE telemetry_frame, telemetry_latest, telemetry_dirty, refused_message")
        connection.execute("VACUUM (ANALYZE) plant, sub_device, telemetry_source, telemetry_latest")
        connection.execute("CHECKPOINT")
