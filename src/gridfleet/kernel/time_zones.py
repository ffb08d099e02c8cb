"""Time zones by their IANA names.

The names come from the package `tzdata`, so that every machine accepts the same ones: Debian 12 and 13 install different sets,
and minimal images none. No statement contains a name, because the database may have yet another set: it gets the times at which
days begin.
"""

from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["UTC_NAME", "is_time_zone", "time_zone", "time_zone_names"]

UTC_NAME: Final = "UTC"
"""The zone of an organisation that has not chosen one."""

_NOT_A_PLACE: Final = {"Factory"}
"""The zone of a computer that is not configured."""


@cache
def time_zone_names() -> frozenset[str]:
    """Return the names of all time zones, former names included."""
    lines = files("tzdata").joinpath("zones").read_text(encoding="utf-8").splitlines()
    return frozenset(lines) - _NOT_A_PLACE


def is_time_zone(name: str) -> bool:
    """Return whether `name` is the name of a time zone. Case matters."""
    return name in time_zone_names()


def time_zone(name: str) -> ZoneInfo:
    """Return the time zone of a name that `is_time_zone` accepts."""
    return ZoneInfo(name)
