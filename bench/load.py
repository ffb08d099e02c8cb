"""Prepared signed messages, and a ledger of what the database must contain after they are stored."""

import random
import time
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.fleet import DEVICES, SIGNALS, BenchPlant, Fleet
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import sign_message
from gridfleet.protocol.topics import Channel, topic

__all__ = ["LATE", "POINTS_PER_SNAPSHOT", "Frame", "Ledger", "Load", "Sent", "make_load"]

POINTS_PER_SNAPSHOT: Final = DEVICES * SIGNALS
LATE: Final = 0.05
REPEATED: Final = 0.01
BAD_SIGNATURE: Final = 0.001
_INTERVAL_SECONDS: Final = 10
_HUNDREDTHS: Final = [f"{value / 100}" for value in range(100_000)]
"""Values have two decimals, like those of meters. In hundredths they are integers, so sums compare exactly."""
_TIME_FACTOR: Final = 31
_TIME_MODULUS: Final = 1_009


class Frame(NamedTuple):
    """Values of one source at one time (epoch seconds), in hundredths. None for values that were not sent."""

    source_id: int
    time: int
    values: list[int | None]


class Sums(NamedTuple):
    """Sums of one source in hundredths: number of values, their sum, and their sum weighted by signal and time."""

    points: int
    total: int
    weighted: int


@dataclass(slots=True)
class Ledger:
    """Sums by source of everything that was sent and must be stored."""

    sums: dict[int, Sums] = field(default_factory=dict)
    points: int = 0

    def add(self, frame: Frame) -> None:
        """Add a frame."""
        present = [(place, value) for place, value in enumerate(frame.values, 1) if value is not None]
        weight = _TIME_FACTOR * (frame.time % _TIME_MODULUS)
        total = sum(value for _, value in present)
        weighted = sum(place * value for place, value in present) + weight * total
        old = self.sums.get(frame.source_id, Sums(0, 0, 0))
        self.sums[frame.source_id] = Sums(old.points + len(present), old.total + total, old.weighted + weighted)
        self.points += len(present)

    def merge(self, other: "Ledger") -> None:
        """Add the sums of another ledger."""
        for source, sums in other.sums.items():
            old = self.sums.get(source, Sums(0, 0, 0))
            self.sums[source] = Sums(*map(sum, zip(old, sums, strict=True)))
        self.points += other.points


class Sent(NamedTuple):
    """A message: the index of its plant in the fleet, its MQTT topic, its bytes, and its oldest frame.

    The oldest frame is None if the signature is wrong.
    """

    plant: int
    topic: str
    body: bytes
    frame: Frame | None


@dataclass(slots=True)
class Load:
    """Messages in sending order, including repeated messages and wrong signatures."""

    messages: list[Sent]
    ledger: Ledger
    frames: list[Frame]
    repeated: int = 0
    bad_signatures: int = 0


def make_load(
    fleet: Fleet, points_per_message: int, points: int, *, seed: int = 1, late: float = LATE, repeated: float = REPEATED
) -> Load:
    """Return messages of about `points` distinct points in total.

    A message holds ten signals of one sub-device, a snapshot of the whole plant, or an array of such snapshots. Plants
    alternate. The snapshots of a plant are ten seconds apart and end now.
    """
    chance = random.Random(seed)
    made = Load([], Ledger(), [])
    now = int(time.time())
    count = max(1, points // points_per_message)
    rounds = -(-count // len(fleet.plants))
    snapshots_each = max(1, points_per_message // POINTS_PER_SNAPSHOT)
    for number in range(count):
        turn, place = divmod(number, len(fleet.plants))
        plant = fleet.plants[place]
        newest = now - (rounds - 1 - turn) * snapshots_each * _INTERVAL_SECONDS
        if chance.random() < late:
            # A time, hours ago, that no other message of this load has. Half of these times are on the previous day.
            newest -= 6 * 3600 * chance.randint(1, 5) + rounds * snapshots_each * _INTERVAL_SECONDS
        bad = chance.random() < BAD_SIGNATURE
        frames: list[Frame] = []
        if points_per_message < POINTS_PER_SNAPSHOT:
            payload = _part(plant, newest, turn, points_per_message, chance, frames)
        else:
            times = [newest - back * _INTERVAL_SECONDS for back in range(snapshots_each - 1, -1, -1)]
            snapshots = [_snapshot(plant, at, chance, frames) for at in times]
            payload = snapshots[0] if len(snapshots) == 1 else f"[{','.join(snapshots)}]"
        address = topic(plant.id, Channel.TELEMETRY)
        body = sign_message(plant.key, address, new_id().hex, int(time.time() * 1000), payload.encode())
        if bad:
            made.messages.append(Sent(place, address, body.replace(b'"sig":"', b'"sig":"0', 1), None))
            made.bad_signatures += 1
            continue
        made.messages.append(Sent(place, address, body, frames[0]))
        if chance.random() < repeated:
            made.messages.append(made.messages[-1])
            made.repeated += 1
        for frame in frames:
            made.ledger.add(frame)
        made.frames += frames
    return made


def _snapshot(plant: BenchPlant, at: int, chance: random.Random, frames: list[Frame]) -> str:
    entries = []
    for device_id, source_id in zip(plant.device_ids, plant.source_ids, strict=True):
        values = chance.choices(_RANGE, k=SIGNALS)
        frames.append(Frame(source_id, at, list(values)))
        entries.append(f'{{"id":"{device_id}","fields":{{{_TEMPLATE % tuple(map(_HUNDREDTHS.__getitem__, values))}}}}}')
    return f'{{"time":{at * 1000},"devices":[{",".join(entries)}]}}'


def _part(plant: BenchPlant, at: int, turn: int, points: int, chance: random.Random, frames: list[Frame]) -> str:
    """Return some signals of one sub-device as JSON. The rest of its frame stays empty."""
    place = turn % DEVICES
    first = turn // DEVICES % (SIGNALS // points) * points
    values: list[int | None] = [None] * SIGNALS
    values[first : first + points] = chance.choices(_RANGE, k=points)
    frames.append(Frame(plant.source_ids[place], at, values))
    fields = ",".join(f'"signal_{n:02}":{_HUNDREDTHS[value]}' for n, value in enumerate(values) if value is not None)
    return f'{{"time":{at * 1000},"devices":[{{"id":"{plant.device_ids[place]}","fields":{{{fields}}}}}]}}'


_RANGE: Final = range(len(_HUNDREDTHS))
_TEMPLATE: Final = ",".join(f'"signal_{n:02}":%s' for n in range(SIGNALS))
