"""Quiet hours: when a notification that would be sent now may be sent."""

from datetime import UTC, datetime, time, timedelta
from typing import Final

from gridfleet.domains.notifications.models import QuietHours
from gridfleet.kernel.time_zones import time_zone

__all__ = ["quiet_until"]

_STEP: Final = timedelta(minutes=15)
_LONGEST: Final = timedelta(hours=3)
"""More than clocks are ever set back by."""


def quiet_until(hours: QuietHours, now: datetime) -> datetime | None:
    """Return when the quiet hours that hold at `now` end, after `now` and in UTC; None if none hold."""
    if not _are_in_force(hours, now):
        return None
    local, end = now.astimezone(time_zone(hours.time_zone)), time.fromisoformat(hours.end)
    day = local.date() if local.time() < end else local.date() + timedelta(days=1)
    until = datetime.combine(day, end, local.tzinfo).astimezone(UTC)
    # Clocks that are set back repeat an hour, which may be quiet again.
    latest = until + _LONGEST
    while until <= now or (until < latest and _are_in_force(hours, until)):
        until += _STEP
    # Clocks that are set forward leave out an hour, in which they may have ended.
    while until - _STEP > now and not _are_in_force(hours, until - _STEP):
        until -= _STEP
    return until


def _are_in_force(hours: QuietHours, moment: datetime) -> bool:
    """Return whether a moment is in the quiet hours."""
    clock = moment.astimezone(time_zone(hours.time_zone)).time()
    start, end = time.fromisoformat(hours.start), time.fromisoformat(hours.end)
    return start <= clock < end if start < end else clock >= start or clock < end
