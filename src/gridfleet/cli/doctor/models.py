"""What an examination finds, and what it goes by."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.settings import Settings

__all__ = ["Examination", "Finding", "Status", "fail", "ok", "reason", "warn"]

GIB: Final = 1 << 30


class Status(StrEnum):
    """How good it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """One checked thing: what was found, and what an operator can do about it unless it is ok."""

    check: str
    status: Status
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> Finding:
    """As it should be."""
    return Finding(check, Status.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    """It works, and will not for ever."""
    return Finding(check, Status.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(check, Status.FAIL, found, remedy)


def reason(error: BaseException) -> str:
    """Return an error's type, and its text if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True)
class Examination:
    """Where the parts of the deployment are; None for a part that cannot be found. `clock`: ours, UTC."""

    settings: Settings
    home: Path
    database_url: str | None
    broker_url: str | None
    management_url: str | None
    clock: Callable[[], datetime] = utc_now
    min_free_bytes: int = 2 * GIB

    @property
    def embedded_broker(self) -> bool:
        """Whether the broker is the private node of this home."""
        return self.settings.broker_url is None
