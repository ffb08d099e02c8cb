"""Conversion of snapshots to messages: checks before storing, batches of queued snapshots, unique ids, times."""

import itertools
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from gridfleet.protocol.envelope import MAX_DEVICES, MAX_FIELDS, Snapshot, parse_time
from gridfleet.sdk.plant.errors import SnapshotRefused
from gridfleet.sdk.plant.store import Stored

__all__ = ["ENVELOPE_BYTES", "Batch", "MessageIds", "current_time", "encode_snapshot", "pack"]

ENVELOPE_BYTES: Final = 256
"""Upper bound for the bytes that this client's envelope adds to its payload: names, id, time and signature."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Snapshot)


class MessageIds:
    """Source of envelope ids. Each publish gets a new id, including repeated publishes of the same snapshots."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """Return an id that no message has had, in this run or another."""
        return f"{self._prefix}-{next(self._numbers)}"


class Batch(NamedTuple):
    """One payload and the numbers of the stored messages in it."""

    numbers: list[int]
    payload: bytes


def current_time(clock: Callable[[], float]) -> datetime:
    """Return the time of a clock of epoch seconds, in whole milliseconds."""
    return datetime.fromtimestamp(int(clock() * 1000) / 1000, UTC)


def encode_snapshot(snapshot: Snapshot, max_message_bytes: int) -> bytes:
    """Encode a snapshot as JSON.

    Raises:
        SnapshotRefused: The service would refuse it.
    """
    if len(snapshot.devices) > MAX_DEVICES:
        raise SnapshotRefused(f"{len(snapshot.devices)} devices; at most {MAX_DEVICES}")
    widest = max((len(entry.fields) for entry in snapshot.devices), default=0)
    if max(widest, len(snapshot.fields)) > MAX_FIELDS:
        raise SnapshotRefused(f"more than {MAX_FIELDS} fields in one device")
    for time in (snapshot.time, *(entry.time for entry in snapshot.devices if entry.time is not None)):
        try:
            parse_time(time)
        except ValueError as error:
            raise SnapshotRefused(f"time {time}: {error}") from None
    try:
        payload = _encoder.encode(snapshot)
        # Types are not checked when a snapshot is created, and a Decimal is encoded as text.
        _decoder.decode(payload)
    except (TypeError, UnicodeEncodeError, msgspec.DecodeError) as error:
        raise SnapshotRefused(str(error)) from None
    if len(payload) + ENVELOPE_BYTES > max_message_bytes:
        raise SnapshotRefused(f"{len(payload)} bytes; a message has at most {max_message_bytes}")
    return payload


def pack(stored: Sequence[Stored], *, max_snapshots: int, max_message_bytes: int) -> Iterator[Batch]:
    """Yield payloads of snapshots in order.

    A single snapshot becomes an object, several become an array that stays below the size limit.
    """
    room = max_message_bytes - ENVELOPE_BYTES
    numbers: list[int] = []
    parts: list[bytes] = []
    size = 0
    for number, payload in stored:
        if parts and (len(parts) == max_snapshots or size + len(payload) + len(parts) + 2 > room):
            yield _batch(numbers, parts)
            numbers, parts, size = [], [], 0
        numbers.append(number)
        parts.append(payload)
        size += len(payload)
    if parts:
        yield _batch(numbers, parts)


def _batch(numbers: list[int], parts: list[bytes]) -> Batch:
    return Batch(numbers, parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]")
