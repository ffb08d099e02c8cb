"""The queue file: a plant's messages stay on disk until the broker has confirmed them.

SQLite in WAL mode, opened by one process at a time. With `fsync` a stored message survives a power failure. Without it, it
survives only the death of the process.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant.errors import QueueError

__all__ = ["QueueFile", "Stored"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, stored_at REAL NOT NULL, payload BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS message_by_channel ON message (channel, number);
CREATE TABLE IF NOT EXISTS command (
    command_id TEXT PRIMARY KEY, received_at REAL NOT NULL, finished INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plant (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS total (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO total VALUES ('dropped', 0);
"""
_COMMANDS_KEPT_SECONDS: Final = 7 * 24 * 3600
_DROP_AT_ONCE: Final = 64
_READ_BYTES: Final = 1024 * 1024
"""Bytes to read at once: plants' computers have little memory, and a backlog may consist of large messages."""

T = TypeVar("T")

# Own threads, because connection attempts to an unreachable broker may occupy all default threads of the event loop.
_disk = ThreadPoolExecutor(max_workers=4, thread_name_prefix="gridfleet-queue")


class Stored(NamedTuple):
    """A queued message. `number` grows with every message of the queue and is never reused."""

    number: int
    payload: bytes


class QueueFile:
    """The queue of one plant. Methods that read or write are coroutines and raise `QueueError` when the file fails."""

    def __init__(self, path: Path, plant_id: str, *, max_bytes: int, max_age_seconds: float, fsync: bool = True) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._lock = Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
            try:
                # Set exclusive mode before WAL: a second process is refused, and no shared-memory file is needed.
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
                self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
                path.chmod(0o600)
                count, size = self._db.execute("SELECT count(*), coalesce(sum(length(payload)), 0) FROM message").fetchone()
                self._take(path, plant_id, int(count))
                dropped = self._db.execute("SELECT value FROM total WHERE name = 'dropped'").fetchone()[0]
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, OSError) as error:
            hint = ": another process uses it" if "locked" in str(error) else ""
            raise QueueError(f"{path}: {error}{hint}") from error
        self._path = path
        self._bytes = int(size)
        self.waiting = int(count)
        self.dropped = int(dropped)

    def _take(self, path: Path, plant_id: str, waiting: int) -> None:
        """Make this the plant of the file. A file of an earlier version names none.

        Raises:
            QueueError: Messages of another plant wait in the file.
        """
        former = self._db.execute("SELECT id FROM plant WHERE id <> ?", (plant_id,)).fetchone()
        if former is not None and waiting:
            raise QueueError(f"{path}: holds {waiting} messages of plant {former[0]}: use another file")
        with self._transaction():
            if former is not None:
                self._db.execute("DELETE FROM plant")
                self._db.execute("DELETE FROM command")
            self._db.execute("INSERT OR IGNORE INTO plant VALUES (?)", (plant_id,))

    async def put(self, channel: Channel, payloads: Sequence[bytes]) -> tuple[list[int], int]:
        """Store messages.

        Returns:
            Their numbers, and the number of old messages that were dropped to make room.
        """
        return await self._run(lambda: self._put(channel, payloads))

    async def read(self, channel: Channel, after: int, limit: int) -> list[Stored]:
        """Return the oldest messages of a channel whose number is above `after`: `limit` of them, or until a MiB is reached."""
        return await self._run(lambda: self._read(channel, after, limit))

    async def remove(self, numbers: Sequence[int]) -> None:
        """Delete messages that the broker has confirmed."""
        await self._run(lambda: self._remove(numbers))

    async def begin_command(self, command_id: str, ack: bytes) -> bool:
        """Store a command's id and queue its first acknowledgement. Returns False if the id is already stored."""
        return await self._run(lambda: self._begin_command(command_id, ack))

    async def finish_command(self, command_id: str, ack: bytes) -> None:
        """Queue a command's last acknowledgement."""
        await self._run(lambda: self._finish_command(command_id, ack))

    async def unfinished_commands(self) -> list[str]:
        """Return the ids of commands that were started and not finished because the process died."""
        return await self._run(
            lambda: [
                row[0] for row in self._db.execute("SELECT command_id FROM command WHERE NOT finished ORDER BY received_at")
            ]
        )

    async def close(self) -> None:
        """Close the file; its messages are kept."""
        await self._run(self._db.close)

    async def _run(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock:
                return work()

        try:
            return await asyncio.get_running_loop().run_in_executor(_disk, locked)
        except sqlite3.Error as error:
            raise QueueError(f"{self._path}: {error}") from error

    def _put(self, channel: Channel, payloads: Sequence[bytes]) -> tuple[list[int], int]:
        size = sum(map(len, payloads))
        with self._transaction():
            numbers = [self._insert(channel, payload) for payload in payloads]
            dropped, freed = self._drop(self._bytes + size)
        self._bytes += size - freed
        self.waiting += len(payloads) - dropped
        self.dropped += dropped
        return numbers, dropped

    def _insert(self, channel: Channel, payload: bytes) -> int:
        number = self._db.execute(
            "INSERT INTO message (channel, stored_at, payload) VALUES (?, ?, ?)", (channel.value, time.time(), payload)
        ).lastrowid
        assert number is not None
        return number

    def _drop(self, size: int) -> tuple[int, int]:
        """Delete the oldest messages while they exceed the limits of age or size.

        Returns:
            The number of deleted messages and their bytes.
        """
        oldest = time.time() - self._max_age_seconds
        dropped = freed = 0
        while True:
            rows = self._db.execute(
                "SELECT number, length(payload), stored_at FROM message ORDER BY number LIMIT ?", (_DROP_AT_ONCE,)
            ).fetchall()
            doomed = []
            for number, length, stored_at in rows:
                if stored_at >= oldest and size - freed <= self._max_bytes:
                    break
                doomed.append((number,))
                freed += length
            self._db.executemany("DELETE FROM message WHERE number = ?", doomed)
            dropped += len(doomed)
            if len(doomed) < _DROP_AT_ONCE:
                break
        if dropped:
            self._db.execute("UPDATE total SET value = value + ? WHERE name = 'dropped'", (dropped,))
        return dropped, freed

    def _read(self, channel: Channel, after: int, limit: int) -> list[Stored]:
        rows = self._db.execute(
            "SELECT number, payload FROM message WHERE channel = ? AND number > ? ORDER BY number LIMIT ?",
            (channel.value, after, limit),
        )
        stored, size = [], 0
        with contextlib.closing(rows):  # it may end early
            for number, payload in rows:
                stored.append(Stored(number, payload))
                size += len(payload)
                if size >= _READ_BYTES:
                    break
        return stored

    def _remove(self, numbers: Sequence[int]) -> None:
        removed = freed = 0
        with self._transaction():
            for number in numbers:
                row = self._db.execute("DELETE FROM message WHERE number = ? RETURNING length(payload)", (number,)).fetchone()
                if row is not None:
                    removed += 1
                    freed += row[0]
        self._bytes -= freed
        self.waiting -= removed

    def _begin_command(self, command_id: str, ack: bytes) -> bool:
        now = time.time()
        with self._transaction():
            self._db.execute("DELETE FROM command WHERE received_at < ? AND finished", (now - _COMMANDS_KEPT_SECONDS,))
            new = self._db.execute(
                "INSERT OR IGNORE INTO command (command_id, received_at) VALUES (?, ?)", (command_id, now)
            ).rowcount
            if new:
                self._insert(Channel.ACK, ack)
        if new:
            self._count_ack(ack)
        return bool(new)

    def _finish_command(self, command_id: str, ack: bytes) -> None:
        with self._transaction():
            self._db.execute("UPDATE command SET finished = 1 WHERE command_id = ?", (command_id,))
            self._insert(Channel.ACK, ack)
        self._count_ack(ack)

    def _count_ack(self, ack: bytes) -> None:
        self._bytes += len(ack)
        self.waiting += 1

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # After some errors, such as a full disk, SQLite has rolled the transaction back itself. A second rollback would
            # fail, and its error would hide the first one.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
