"""Records of sites: what partners have set, the lists and the past of sites, and how their power followed it."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.vcp.models import PendingCommand
from gridfleet.protocol.partner_messages import Mode
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = [
    "Adherence",
    "AdherenceQuarter",
    "Constraints",
    "Fallback",
    "ModeOverride",
    "Schedule",
    "ScheduleInterval",
    "ScheduleState",
    "SentPlan",
    "SetSchedule",
    "Site",
    "SiteConfiguration",
    "SiteFilter",
    "SiteOverview",
    "SitePast",
]


class Constraints(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of a site, null where there is none: powers as magnitudes in kW, states of charge in percent."""

    import_limit_kw: float | None = None
    export_limit_kw: float | None = None
    charge_max_kw: float | None = None
    discharge_max_kw: float | None = None
    soc_min_pct: float | None = None
    soc_max_pct: float | None = None


class Fallback(msgspec.Struct, frozen=True, rename="camel"):
    """The mode that a site changes to when its partner has been silent for `after_seconds`. Both fields are needed."""

    mode: Mode | None = None
    after_seconds: int | None = None


class ModeOverride(msgspec.Struct, frozen=True, rename="camel"):
    """A mode that a partner has set. `set_by` is the API key's id; an EMERGENCY_STOP has no end."""

    mode: Mode
    set_by: str
    set_at: datetime
    expires_at: datetime | None


class ScheduleInterval(msgspec.Struct, frozen=True, rename="camel"):
    """One step of a schedule."""

    start: datetime
    duration_seconds: int
    power_kw: float

    @property
    def end(self) -> datetime:
        """The end of the step."""
        return self.start + timedelta(seconds=self.duration_seconds)


class Schedule(msgspec.Struct, frozen=True, rename="camel"):
    """A schedule in force, its intervals by time."""

    schedule_id: str
    revision: int
    intervals: list[ScheduleInterval]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What partners have set at a site.

    `schedule_id` and `schedule_revision` are the last ones set, even if that schedule no longer holds. `schedule_ends_at` is
    None unless a schedule holds. The `…_command_id`s are the commands that set the override, the schedule (or its
    cancellation) and the setpoint; `setpoint_ends_at` is None for a setpoint without a duration. `silent_from` is the time of
    the partner's last command, or the end of the last override or schedule if that is later.
    """

    plant_id: UUID
    lifecycle_status: str
    silent_from: datetime
    constraints: Constraints = Constraints()
    fallback: Fallback = Fallback()
    fallback_since: datetime | None = None
    override: ModeOverride | None = None
    override_command_id: UUID | None = None
    override_power_kw: float | None = None
    setpoint_ends_at: datetime | None = None
    setpoint_command_id: UUID | None = None
    schedule_id: str | None = None
    schedule_revision: int | None = None
    schedule_ends_at: datetime | None = None
    schedule_command_id: UUID | None = None

    def mode(self, now: datetime) -> Mode:
        """Return the operating mode at `now`: the partner's override, else the active fallback, else AUTO."""
        if self.override is not None and (self.override.expires_at is None or now < self.override.expires_at):
            return self.override.mode
        if self.fallback_since is not None and self.fallback.mode is not None:
            return self.fallback.mode
        return Mode.AUTO


class SiteFilter(NamedTuple):
    """A filter of sites; `text` is part of the plant's name or serial number. None selects all."""

    text: str | None = None
    has_override: bool | None = None
    has_fallback: bool | None = None
    has_schedule: bool | None = None


class ScheduleState(msgspec.Struct, frozen=True, rename="camel"):
    """The current step of a site's schedule.

    `power_kw` is that of the current step, positive when the site consumes; None between two steps. `changes_at` is the start
    of the next step or, if that is earlier or there is no next one, the end of the current one. `ends_at` is the end of the
    schedule.
    """

    schedule_id: str
    revision: int
    power_kw: float | None
    changes_at: datetime
    ends_at: datetime


class SiteOverview(msgspec.Struct, frozen=True, rename="camel"):
    """A site in the list of all. `fallback_since` is None unless the fallback is active."""

    site_id: UUID
    name: str
    serial_number: str
    lifecycle_status: Lifecycle
    status: PlantStatus
    operating_mode: Mode
    mode_override: ModeOverride | None
    fallback: Fallback
    fallback_since: datetime | None
    schedule: ScheduleState | None


class SetSchedule(NamedTuple):
    """The newest command that set or cancelled a site's schedule before some time. `intervals` is empty for a cancellation."""

    set_at: datetime
    schedule_id: str
    revision: int
    intervals: list[ScheduleInterval]


class SentPlan(msgspec.Struct, frozen=True, rename="camel"):
    """A plan that the plant's ESM has accepted."""

    request_code: UUID
    sent_at: datetime
    version: int | None
    time_configs: list[TimeBlock]


class SitePast(msgspec.Struct, frozen=True, rename="camel"):
    """The schedule and the plan of a site at a past time, None where there was none."""

    site_id: UUID
    at: datetime
    schedule: Schedule | None
    schedule_set_at: datetime | None
    plan: SentPlan | None


class AdherenceQuarter(msgspec.Struct, frozen=True, rename="camel"):
    """Ordered and measured mean power of a quarter of an hour, positive from the grid.

    `ordered_kw` is None unless a power was ordered for the whole quarter, `measured_kw` without readings of the grid's meter.
    """

    time: datetime
    ordered_kw: float | None
    measured_kw: float | None
    deviation_kw: float | None


class Adherence(msgspec.Struct, frozen=True, rename="camel"):
    """How the measured power of a site followed the ordered power. The sums are about the quarters that have both.

    `mean_deviation_kw` is the mean of the absolute deviations, None without such a quarter.
    """

    site_id: UUID
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    compared_quarters: int
    mean_deviation_kw: float | None
    ordered_kwh: float
    delivered_kwh: float
    quarters: list[AdherenceQuarter]


class SiteConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A site as partners read it (spec, VCP site configuration)."""

    site_id: UUID
    operating_mode: Mode
    constraints: Constraints
    fallback: Fallback
    mode_override: ModeOverride | None
    active_schedule: Schedule | None
    pending_commands: list[PendingCommand]
