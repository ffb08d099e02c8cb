"""What may be asked of a site, whatever the site is like."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.vcp.models import Instruction, Rejection, Verified
from gridfleet.domains.vcp.rules import changed_constraints, changed_fallback, check_site, instruct, power_fits
from gridfleet.domains.vcp.sites.models import Constraints, Fallback, ModeOverride, Site
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import MESSAGE_TYPES, ConstraintChanges, FallbackChanges, Heading, Mode
from gridfleet.protocol.partner_routes import CommandKind
from support.builders.partner_commands import body_of

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
SET = CommandKind.SCHEDULE_SET
LIMITS = Constraints(import_limit_kw=10, export_limit_kw=5, charge_max_kw=4, discharge_max_kw=0)
powers = st.floats(-50, 50)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def site(**members: Any) -> Site:
    return Site(plant_id=new_id(), lifecycle_status="ACTIVE", silent_from=NOW, **members)


def heading(kind: CommandKind, **members: Any) -> Heading:
    return msgspec.convert(body_of("s", **members), MESSAGE_TYPES[kind], strict=False)


def judged(kind: CommandKind, where: Site, **members: Any) -> Instruction | str:
    """The command to the plant, or the reason against it."""
    try:
        verified = Verified(heading(kind, **members), CommandType.SITE_SETPOINT, members.get("deviceId"))
        check_site(verified, where, NOW)
        return instruct(verified, where, NOW)
    except Rejection as rejection:
        return rejection.reason.value


def interval(start: float, seconds: int = 900, power: float = 1) -> dict[str, Any]:
    return {"start": at(start).isoformat(), "durationSeconds": seconds, "powerKw": power}


@given(powers)
def test_setpoints_are_bound_by_the_limit_of_their_sign(power: float) -> None:
    found = judged(CommandKind.SETPOINT, site(constraints=LIMITS), powerKw=power)
    if -5 <= power <= 10:
        assert isinstance(found, Instruction)
        assert found.content == {"powerKw": power}
    else:
        assert found == "CONSTRAINT_VIOLATED"


def test_a_refusal_shows_in_what_power_and_limit_differ() -> None:
    verified = Verified(heading(CommandKind.SETPOINT, powerKw=1_234_567.5), CommandType.SITE_SETPOINT, None)
    with pytest.raises(Rejection, match=r"powerKw: 1234568 kW is beyond importLimitKw of 1234567 kW"):
        instruct(verified, site(constraints=Constraints(import_limit_kw=1_234_567)), NOW)
    verified = Verified(heading(CommandKind.SETPOINT, powerKw=-5.0000001), CommandType.SITE_SETPOINT, None)
    with pytest.raises(Rejection, match=r"powerKw: -5.0000001 kW is beyond exportLimitKw of 5 kW"):
        instruct(verified, site(constraints=Constraints(export_limit_kw=5)), NOW)


@given(powers)
def test_without_limits_everything_fits(power: float) -> None:
    assert power_fits(Constraints(), power)


@pytest.mark.parametrize(
    ("mode", "power", "expected"),
    [
        ("CHARGE", None, None),
        ("CHARGE", 4, None),
        ("CHARGE", 4.1, "CONSTRAINT_VIOLATED"),
        ("CHARGE", -1, "PARAMS_INVALID"),
        ("DISCHARGE", None, "CONSTRAINT_VIOLATED"),
        ("STANDBY", None, None),
        ("STANDBY", 1, "PARAMS_INVALID"),
        ("AUTO", None, None),
    ],
)
def test_modes_are_bound_by_the_batteries_limits(mode: str, power: float | None, expected: str | None) -> None:
    found = judged(CommandKind.MODE, site(constraints=LIMITS), mode=mode, powerKw=power)
    assert found == expected if expected else isinstance(found, Instruction)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=8))
def test_intervals_that_overlap_are_found(spans: list[tuple[int, int]]) -> None:
    covered = [second for start, length in spans for second in range(start, start + length)]
    found = judged(
        SET,
        site(),
        scheduleId="s",
        revision=1,
        intervals=[interval(start, length) for start, length in spans],
    )
    assert (found == "SCHEDULE_INVALID") == (len(covered) != len(set(covered)))


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], "SCHEDULE_INVALID"),
        ([interval(0, 0)], "SCHEDULE_INVALID"),
        ([interval(0, -5)], "SCHEDULE_INVALID"),
        ([interval(number * 900) for number in range(673)], "SCHEDULE_INVALID"),
        ([interval(0, power=11)], "CONSTRAINT_VIOLATED"),
        ([interval(0), interval(900, power=-6)], "CONSTRAINT_VIOLATED"),
    ],
)
def test_bad_schedules_are_refused(intervals: list[dict[str, Any]], expected: str) -> None:
    assert judged(SET, site(constraints=LIMITS), scheduleId="s", revision=1, intervals=intervals) == expected


@pytest.mark.parametrize(("schedule", "revision", "fits"), [("s", 3, False), ("s", 2, False), ("s", 4, True), ("t", 1, True)])
def test_the_same_schedule_needs_a_higher_revision(schedule: str, revision: int, fits: bool) -> None:
    where = site(schedule_id="s", schedule_revision=3)
    found = judged(SET, where, scheduleId=schedule, revision=revision, intervals=[interval(0)])
    assert isinstance(found, Instruction) == fits


def test_only_the_schedule_that_holds_is_cancelled() -> None:
    holding = site(schedule_id="s", schedule_revision=3, schedule_ends_at=at(60))
    assert isinstance(judged(CommandKind.SCHEDULE_CANCEL, holding, scheduleId="s"), Instruction)
    assert judged(CommandKind.SCHEDULE_CANCEL, holding, scheduleId="t") == "SCHEDULE_INVALID"
    assert judged(CommandKind.SCHEDULE_CANCEL, site(schedule_id="s", schedule_revision=3), scheduleId="s") == "SCHEDULE_INVALID"


@pytest.mark.parametrize("kind", list(CommandKind))
def test_an_emergency_stop_yields_to_auto_alone(kind: CommandKind) -> None:
    stopped = site(override=ModeOverride(Mode.EMERGENCY_STOP, "k", NOW, None))
    members: dict[str, Any] = {
        "powerKw": 1,
        "mode": "STANDBY",
        "action": "a",
        "scheduleId": "s",
        "revision": 1,
        "intervals": [],
        "constraints": {},
        "fallback": {},
    }
    if kind is CommandKind.MODE:
        assert isinstance(judged(kind, stopped, mode="AUTO"), Instruction)
        assert judged(kind, stopped, mode="EMERGENCY_STOP") == "EMERGENCY_STOP_ACTIVE"
        members.pop("powerKw")
    assert judged(kind, stopped, **members) == "EMERGENCY_STOP_ACTIVE"


def test_time_and_lifecycle_come_first() -> None:
    assert judged(CommandKind.SETPOINT, site(), powerKw=1, expiresAt=NOW.isoformat()) == "EXPIRED"
    suspended = msgspec.structs.replace(site(), lifecycle_status="SUSPENDED")
    assert judged(CommandKind.SETPOINT, suspended, powerKw=1) == "SITE_SUSPENDED"


def test_a_device_must_be_there_and_have_a_template() -> None:
    assert judged(CommandKind.DEVICE, site(), deviceId="BAT1", action="stop") == "DEVICE_UNKNOWN"


def test_absent_limits_stay_and_null_clears() -> None:
    changes = msgspec.convert({"importLimitKw": None, "socMinPct": 20}, ConstraintChanges)
    assert changed_constraints(LIMITS, changes) == msgspec.structs.replace(LIMITS, import_limit_kw=None, soc_min_pct=20)
    assert changed_fallback(Fallback(Mode.STANDBY, 60), msgspec.convert({"afterSeconds": None}, FallbackChanges)) == Fallback(
        Mode.STANDBY, None
    )


@pytest.mark.parametrize("limits", [{"importLimitKw": -1}, {"socMaxPct": 101}, {"socMinPct": 50, "socMaxPct": 40}])
def test_limits_that_make_no_sense_are_refused(limits: dict[str, float]) -> None:
    assert judged(CommandKind.CONSTRAINTS, site(), constraints=limits) == "PARAMS_INVALID"


def test_a_refused_limit_is_named() -> None:
    changes = msgspec.convert({"socMaxPct": 101}, ConstraintChanges)
    with pytest.raises(Rejection) as refused:
        changed_constraints(LIMITS, changes)
    assert refused.value.detail == "constraints.socMaxPct: 101 is out of range"


@pytest.mark.parametrize("fallback", [{"mode": "EMERGENCY_STOP"}, {"afterSeconds": 0}, {"afterSeconds": 10**7}])
def test_fallbacks_that_make_no_sense_are_refused(fallback: dict[str, Any]) -> None:
    assert judged(CommandKind.FALLBACK, site(), fallback=fallback) == "PARAMS_INVALID"


def test_the_mode_in_force() -> None:
    override = ModeOverride(Mode.CHARGE, "k", NOW, at(60))
    fallen = site(fallback=Fallback(Mode.STANDBY, 60), fallback_since=NOW)
    assert site().mode(NOW) is Mode.AUTO
    assert fallen.mode(NOW) is Mode.STANDBY
    assert msgspec.structs.replace(fallen, override=override).mode(at(59)) is Mode.CHARGE
    assert msgspec.structs.replace(fallen, override=override).mode(at(60)) is Mode.STANDBY


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        (CommandKind.SETPOINT, {"powerKw": 1}, "EXPIRED"),
        (CommandKind.SETPOINT, {"powerKw": 1, "durationSeconds": 900}, "EXPIRED"),
        (CommandKind.SETPOINT, {"powerKw": 1, "expiresAt": at(1).isoformat()}, None),
        (CommandKind.CONSTRAINTS, {"constraints": {"importLimitKw": 9}}, None),
    ],
)
def test_a_setpoint_that_waited_is_refused_unless_it_names_its_end(
    kind: CommandKind, members: dict[str, Any], expected: str | None
) -> None:
    fresh, stale = ({"issuedAt": at(-60 * minutes).isoformat(), **members} for minutes in (15, 16))
    assert isinstance(judged(kind, site(), **fresh), Instruction)
    found = judged(kind, site(), **stale)
    assert found == expected if expected else isinstance(found, Instruction)
