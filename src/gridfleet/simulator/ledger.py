"""The record of what a simulation sent, with which a test can compare the service's responses.

JSON lines; `kind` is the type of a line:

    run           api, organization {id, slug}, seed, intervalSeconds, faults, startedAt
    plant         plantId, serialNumber, authMethod, devices [{externalId, type}]
    snapshot      plantId, time, values {"{externalId}.{key}" or "{key}": number}, acknowledged
    refused       plantId, reason, messageId, sentAt (milliseconds), time of the measurement inside
    fault         plantId, fault, time: a deliberate fault that is not a refused message
    energy        plantId, date, produced, imported, exported (kWh, of the snapshots of this and earlier runs)
    end           finishedAt, snapshots, acknowledged, refused, waiting

The line of a snapshot is written when the broker has confirmed it, or at the end with `acknowledged` false.
"""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from gridfleet.simulator.errors import SimulationError

__all__ = ["Ledger"]

_BUFFERED_LINES: Final = 500


class Ledger:
    """Writer of lines to a file. Without a path nothing is written. Use it as a context manager."""

    def __init__(self, path: Path | None) -> None:
        self._lines: list[bytes] = []
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb") if path is not None else None
        except OSError as error:
            raise SimulationError(f"the ledger {path} cannot be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self.flush()
            self._file.close()

    def write(self, kind: str, **members: Any) -> None:
        """Write a line."""
        if self._file is not None:
            self._lines.append(msgspec.json.encode({"kind": kind, **members}) + b"\n")
            if len(self._lines) >= _BUFFERED_LINES:
                self.flush()

    def flush(self) -> None:
        """Flush written lines to the operating system."""
        if self._file is not None:
            self._file.writelines(self._lines)
            self._file.flush()
            self._lines.clear()
