"""Time zones by their IANA names.

Names and rules come from the package `tzdata`, so that every machine accepts the same names and computes the same days. Debian
12 and 13 install different sets, minimal images none, and `ZoneInfo(name)` reads the system's rules first, which may be years
older. No statement contains a name, because the database may have yet another set: it gets the times at which days begin.
"""

from functools import cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from tzdata import IANA_VERSION

__all__ = ["IANA_VERSION", "UTC_NAME", "is_time_zone", "time_zone", "time_zone_names"]

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


@cache
def time_zone(name: str) -> ZoneInfo:
    """Return the time zone of a name that `is_time_zone` accepts."""
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)
