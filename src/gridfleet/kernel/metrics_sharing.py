"""The combined metrics of all processes that share a home folder.

Each process writes its metrics to its own file below `{home}/metrics`, every few seconds and when it ends. A process that is
scraped writes its own file, reads all files and adds them up. Counters and histograms are summed, gauges are combined by their
`multiprocess_mode`. The metrics of a process that has ended are kept, so that no sum decreases: they are moved to the file
`ended` and the process's own file is deleted, so that restarts leave no files behind. A process locks a file beside its metrics
as long as it lives, in any container.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

__all__ = ["Family", "SharedMetrics", "add_up", "as_text", "figures_of"]

log = structlog.get_logger(__name__)

_OURS: Final = "gridfleet_"
_ENDED: Final = "ended.json"


class Family(msgspec.Struct, frozen=True):
    """The samples of one metric: (name of the sample, its labels, value)."""

    name: str
    type: str
    help: str
    mode: str
    samples: list[tuple[str, dict[str, str], float]]


class _Figures(msgspec.Struct, frozen=True):
    """Content of a file. `holds`: the ended processes whose metrics are already included."""

    families: list[Family]
    holds: list[str] = []


def figures_of(registry: CollectorRegistry = REGISTRY) -> list[Family]:
    """Return the service's own metrics in a registry."""
    modes = {name: getattr(collector, "_multiprocess_mode", "") for collector, name in _collectors(registry)}
    return [
        Family(
            metric.name,
            metric.type,
            metric.documentation,
            modes.get(metric.name, ""),
            [(sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples],
        )
        for metric in registry.collect()
        if metric.name.startswith(_OURS)
    ]


def add_up(parts: Iterable[Iterable[Family]], *, ended: bool = False) -> list[Family]:
    """Combine several lists of families into one family for each metric. With `ended`, gauges are omitted."""
    known: dict[str, Family] = {}
    sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (family for part in parts for family in part if not (ended and family.type == "gauge")):
        newest = known.setdefault(family.name, family)
        values = sums.setdefault(family.name, {})
        for name, labels, value in family.samples:
            key = name, tuple(labels.items())
            if key not in values:
                values[key] = value
            elif newest.mode == "livemax":
                values[key] = max(values[key], value)
            else:
                values[key] += value
    return [
        replace(known[family], samples=[(name, dict(labels), value) for (name, labels), value in values.items()])
        for family, values in sums.items()
    ]


class SharedMetrics:
    """The folder with the metrics of a home folder.

    Methods do not fail if the folder cannot be written. This is logged once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: str | None = None
        self._complained = False

    def join(self, process: str) -> None:
        """Create a file for this process, once. `process` is its kind."""
        if self._own is not None:
            return
        with self._complaining(), self._alone():
            self._move_ended()
            own = f"{process}.{secrets.token_hex(6)}"
            lock = os.open(self._folder / own, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Left open: the operating system releases the lock when the process ends.
            self._own = own

    def write(self) -> None:
        """Write this process's current metrics."""
        if self._own is not None:
            with self._complaining():
                self._write(f"{self._own}.json", _Figures(figures_of()))
                self._complained = False

    def read(self) -> list[Family]:
        """Return the combined metrics of all processes."""
        self.write()
        with self._complaining(), self._alone():
            self._move_ended()
            found = [figures.families for path in self._folder.glob("*.json") if (figures := self._read(path.name))]
            return add_up(found if self._own is not None else [*found, figures_of()])
        return add_up([figures_of()])

    def _move_ended(self) -> None:
        before = self._read(_ENDED) or _Figures([])
        gone = [path.name for path in self._folder.iterdir() if self._has_ended(path.name)]
        if gone:
            # Those in `holds` were already moved by a process that was killed before it deleted their files.
            new = [figures.families for name in gone if name not in before.holds and (figures := self._read(f"{name}.json"))]
            self._write(_ENDED, _Figures(add_up([before.families, *new], ended=True), gone))
            for name in gone:
                (self._folder / f"{name}.json").unlink(missing_ok=True)
                (self._folder / name).unlink(missing_ok=True)

    def _has_ended(self, name: str) -> bool:
        if name == "lock" or name.endswith((".json", ".new")) or name == self._own:
            return False
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            finally:
                os.close(lock)
            return True
        return False

    def _read(self, name: str) -> _Figures | None:
        try:
            return msgspec.json.decode((self._folder / name).read_bytes(), type=_Figures)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("figures cannot be read; leaving them out", file=name, error=str(error))
            return None

    def _write(self, name: str, figures: _Figures) -> None:
        fresh = self._folder / f"{name}.new"
        fresh.write_bytes(msgspec.json.encode(figures))
        fresh.replace(self._folder / name)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the folder so that no other process moves or combines metrics meanwhile."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._complained:
                log.warning("figures cannot be shared", folder=str(self._folder), error=str(error))
            self._complained = True


def as_text(families: Iterable[Family]) -> bytes:
    """Return the families in Prometheus's text format."""
    return generate_latest(_Shown(families))


class _Shown(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the families as the library's metrics."""
        for family in sorted(self._families, key=lambda family: family.name):
            metric = Metric(family.name, family.help, family.type)
            for name, labels, value in family.samples:
                metric.add_sample(name, labels, value)
            yield metric


def _collectors(registry: CollectorRegistry) -> Iterator[tuple[object, str]]:
    for collector in list(registry._collector_to_names):
        yield collector, getattr(collector, "_name", "")
