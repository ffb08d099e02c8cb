"""Findings of an examination, and the parts that it examines."""

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
    """Result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """Result of one check: what was found, and a remedy unless it is ok."""

    check: str
    status: Status
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(check, Status.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    """Return a finding that will become a problem."""
    return Finding(check, Status.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    """Return a finding that prevents operation."""
    return Finding(check, Status.FAIL, found, remedy)


def reason(error: BaseException) -> str:
    """Return an error's type, and its text if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True)
class Examination:
    """Addresses of the deployment's parts; None for a part that cannot be found. `clock` returns our time in UTC."""

    settings: Settings
    home: Path
    database_url: str | None
    broker_url: str | None
    management_url: str | None
    clock: Callable[[], datetime] = utc_now
    min_free_bytes: int = 2 * GIB

    @property
    def embedded_database(self) -> bool:
        """Whether the database is the embedded server of this home folder."""
        return self.settings.database_url is None

    @property
    def embedded_broker(self) -> bool:
        """Whether the broker is the private node of this home folder."""
        return self.settings.broker_url is None
