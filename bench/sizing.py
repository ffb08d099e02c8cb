"""What a core, a disk and an installation carry, computed from the results of the ingest and history benchmarks.

`docs/sizing.md` gives the formulas and shows these figures.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from gridfleet.protocol.envelope import DeviceEntry, FieldValue, Snapshot, sign_message

__all__ = ["Costs", "Outage", "outage", "tables"]

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]
"""Writes a table with this head and these rows."""
RESULTS: Final = Path(__file__).resolve().parent / "results"
SMALL: Final = 10
"""Values of the small messages that were measured, of a part of one device."""
LARGE: Final = 120
"""Values of the large ones, of six devices."""
DEVICES_OF_LARGE: Final = 6
HEADROOM: Final = 2
"""Each core is used to a half; the rest is for everything else, and for what arrives late."""
DAYS_KEPT: Final = 400


class Part(NamedTuple):
    """Core time that a part of the path takes, in µs: of a message, and of each of its values."""

    message: float
    value: float

    def of(self, values: int) -> float:
        """Return the core time of a message with so many values, in µs."""
        return self.message + values * self.value


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of messages.

    Attributes:
        whole: Core time between publish and commit while plants publish, the benchmark's own plants included.
        parts: Core time of the broker, the ingest and the database, measured while they took stored messages.
        row_bytes: Bytes on disk of a row of a device, without its values.
        value_bytes: Bytes on disk of a value.
        roll_ups: Values per second that the job for roll-ups processes.
    """

    whole: Part
    parts: dict[str, Part]
    row_bytes: float
    value_bytes: float
    roll_ups: float

    @classmethod
    def measured(cls, results: Path = RESULTS) -> Self:
        """Return the costs of the newest results."""
        ingest = _values(results / "ingest.json")
        parts = {name: _part(ingest, f"cpu_{name}") for name in ("broker", "ingest", "postgres")}
        value = _part(ingest, "cpu").value
        message = 1e6 * ingest["cores"] * LARGE / ingest["live_points_per_second"] - LARGE * value
        small = ingest["messages_of_10_bytes_per_point"] * SMALL
        width = LARGE // DEVICES_OF_LARGE
        value_bytes = (ingest["bytes_per_point"] * width - small) / (width - SMALL)
        roll_ups = _values(results / "history.json")["roll_up_points_per_second"]
        return cls(Part(message, value), parts, small - SMALL * value_bytes, value_bytes, roll_ups)

    def plants_per_core(self, values: int, seconds: float) -> float:
        """Return how many plants a core carries that send so many values every so many seconds."""
        return 1e6 * seconds / (HEADROOM * self.whole.of(values))

    def bytes_per_second(self, devices: int, signals: int, seconds: float) -> float:
        """Return the bytes on disk that a plant adds in a second."""
        return devices * (self.row_bytes + signals * self.value_bytes) / seconds


def _values(path: Path) -> dict[str, float]:
    return {name: measure["value"] for name, measure in json.loads(path.read_text()).items()}


def _part(ingest: dict[str, float], name: str) -> Part:
    small, large = ingest[f"messages_of_10_{name}"] * SMALL, ingest[name] * LARGE
    value = (large - small) / (LARGE - SMALL)
    return Part(small - SMALL * value, value)


class Outage(NamedTuple):
    """What an outage leaves: the most messages that wait, and the minutes after its end until none waits any more."""

    waiting: float
    minutes: float


def outage(arriving: float, stored: float, *, minutes: int = 60) -> Outage:
    """Simulate a queue whose consumer is away, second by second.

    Args:
        arriving: Messages that arrive in a second, all the time.
        stored: Messages that the consumer stores in a second when it is there, more than arrive.
        minutes: How long it is away.

    Raises:
        ValueError: As many arrive as are stored, or more.
    """
    if stored <= arriving:
        raise ValueError("the queue would never be empty again")
    waiting = most = arriving * minutes * 60
    seconds = 0
    while waiting > 0:
        waiting += arriving - stored
        seconds += 1
    return Outage(most, seconds / 60)


def tables(table: Table) -> str:
    """Return the tables of `docs/sizing.md`."""
    costs = Costs.measured()
    constants = table(
        ("from `bench/results`", ""),
        (
            ("core time per message, *a*", f"{costs.whole.message:.0f} µs"),
            ("core time per value, *b*", f"{costs.whole.value:.2f} µs"),
            ("disk per device row, *c*", f"{costs.row_bytes:.0f} bytes"),
            ("disk per value, *d*", f"{costs.value_bytes:.1f} bytes"),
            ("values per second of the job for roll-ups, *e*", f"{costs.roll_ups:,.0f}"),
        ),
    )
    plants = table(
        ("a plant has", "a snapshot every", "plants per core", "GB per plant and year"),
        (
            (
                f"{count} × {signals} signals",
                f"{seconds} s",
                f"{costs.plants_per_core(count * signals, seconds) // 10 * 10:,.0f}",
                f"{365 * 86_400 * costs.bytes_per_second(count, signals, seconds) / 1e9:,.1f}",
            )
            for count, signals in ((1, 10), (3, 10), (6, 20), (30, 20))
            for seconds in (1, 5, 60)
        ),
    )
    parts = table(
        ("part", "core time of a message", "and of each value"),
        ((name, f"{part.message:.0f} µs", f"{part.value:.2f} µs") for name, part in costs.parts.items()),
    )
    return f"{constants}\n{parts}\n{plants}\n{_fleets(costs, table)}\n{_outages(costs, table)}"


def _fleets(costs: Costs, table: Table) -> str:
    def row(plants: int, devices: int, signals: int, seconds: int) -> Sequence[str]:
        messages, values = plants / seconds, devices * signals
        stored = plants * costs.bytes_per_second(devices, signals, seconds)
        return (
            f"{plants:,} plants of {devices} × {signals} signals every {seconds} s",
            f"{messages:,.0f}",
            f"{messages * values:,.0f}",
            f"{HEADROOM * messages * costs.whole.of(values) / 1e6:,.1f}",
            f"{stored / 1e6:,.1f}",
            f"{stored * 86_400 * DAYS_KEPT / 1e12:,.1f}",
            f"{messages * values / costs.roll_ups:,.1f}",
        )

    head = ("a fleet", "messages/s", "values/s", "cores")
    return table(
        (*head, "MB/s of rows", f"TB in {DAYS_KEPT} days", "share of *e*"),
        (
            row(1_000, 6, 20, 5),
            row(5_000, 6, 20, 5),
            row(20_000, 6, 20, 60),
            row(20_000, 6, 20, 5),
            row(100_000, 6, 20, 60),
            row(100_000, 6, 20, 10),
            row(100_000, 30, 20, 6),
        ),
    )


def _outages(costs: Costs, table: Table) -> str:
    fields: dict[str, FieldValue] = {f"signal_{number:02}": 1234.5 for number in range(20)}
    snapshot = Snapshot(datetime(2026, 1, 1, tzinfo=UTC), devices=[DeviceEntry(f"INV{number}", fields) for number in range(6)])
    size = len(sign_message(bytes(32), "v1/plants/0/telemetry", "0", 0, msgspec.json.encode(snapshot)))
    stored = 1e6 / costs.whole.of(LARGE)

    def row(share: float) -> Sequence[str]:
        left = outage(share * stored, stored)
        waiting = (f"{left.waiting / 1e6:,.1f} million", f"{left.waiting * size / 1e9:,.1f}")
        return f"{share:.0%}", *waiting, f"{left.minutes:,.0f} min"

    head = ("load before the outage", "messages that wait after an hour, per core", "GB of them", "until none waits any more")
    return table(head, (row(share) for share in (0.25, 0.5, 0.75, 0.9)))
