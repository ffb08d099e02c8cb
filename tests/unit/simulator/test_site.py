"""A simulated site follows targets to it as a whole."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gridfleet.sdk.plant import Command, CommandRejected
from gridfleet.simulator import physics
from gridfleet.simulator.fleet import design_fleet
from gridfleet.simulator.site import SiteCommands

DESIGN = design_fleet(1, 1)[0].design
NOON = 1_782_043_200_000
MINUTE = 60_000


def command(type: str, **members: Any) -> Command:
    now = datetime.now(UTC)
    return Command("c", type, None, now, now, **members)


def after(*commands: Command) -> SiteCommands:
    targets = SiteCommands()
    for one in commands:
        targets = targets.execute(one, NOON)
    return targets


def reading(targets: SiteCommands, time_ms: int = NOON + MINUTE) -> physics.Reading:
    state = physics.initial_state(DESIGN, NOON)
    return physics.step(DESIGN, state, time_ms, MINUTE, targets.apply(physics.Targets(), DESIGN, time_ms))


def test_a_setpoint_is_the_power_at_the_grid_for_its_time() -> None:
    free = reading(SiteCommands()).grid_w
    wanted = (free - 500) / 1000
    held = after(command("SITE_SETPOINT", power_kw=wanted, params={"durationSeconds": 120}))
    assert reading(held).grid_w == pytest.approx(wanted * 1000, abs=1)
    assert reading(held, NOON + 3 * MINUTE) == reading(SiteCommands(), NOON + 3 * MINUTE)


def test_modes_move_batteries() -> None:
    charging = reading(after(command("MODE_CHANGE", mode="CHARGE")))
    gentle = reading(after(command("MODE_CHANGE", mode="CHARGE", power_kw=0.2)))
    assert charging.battery_w == tuple(battery.charge_max_w for battery in DESIGN.batteries)
    assert sum(gentle.battery_w) == pytest.approx(200, abs=1)
    assert all(power < 0 for power in reading(after(command("MODE_CHANGE", mode="DISCHARGE"))).battery_w)
    assert set(reading(after(command("MODE_CHANGE", mode="STANDBY"))).battery_w) == {0}
    back = after(command("MODE_CHANGE", mode="STANDBY"), command("MODE_CHANGE", mode="AUTO"))
    assert reading(back) == reading(SiteCommands())


def test_an_emergency_stop_holds_until_auto() -> None:
    stopped = after(command("SITE_SETPOINT", power_kw=5), command("EMERGENCY", mode="EMERGENCY_STOP"))
    shown = reading(stopped)
    assert {*shown.battery_w, *shown.pv_w} == {0}
    with pytest.raises(CommandRejected):
        stopped.execute(command("SITE_SETPOINT", power_kw=1), NOON)
    assert stopped.execute(command("EMERGENCY", mode="EMERGENCY_STOP"), NOON) == stopped, "a stopped site can be stopped"
    assert reading(stopped.execute(command("MODE_CHANGE", mode="AUTO"), NOON)) == reading(SiteCommands())


def test_a_new_schedule_ends_the_step_of_the_one_before() -> None:
    step = command("SITE_SETPOINT", power_kw=1, schedule={"scheduleId": "s", "revision": 1})
    first, second = ({"scheduleId": "s", "revision": revision, "intervals": [{}]} for revision in (1, 2))
    assert after(step, command("SCHEDULE", schedule=second)).setpoint_w is None
    assert after(step, command("SCHEDULE", schedule=first)).setpoint_w == 1000
    assert after(command("SITE_SETPOINT", power_kw=1), command("SCHEDULE", schedule=second)).setpoint_w == 1000


def test_limits_are_kept_and_schedules_cancelled() -> None:
    limited = after(command("CONFIG", params={"constraints": {"importLimitKw": 2}}))
    with pytest.raises(CommandRejected):
        limited.execute(command("SITE_SETPOINT", power_kw=2.5), NOON)
    step = command("SITE_SETPOINT", power_kw=1, schedule={"scheduleId": "s", "revision": 1})
    plan = command("SCHEDULE", schedule={"scheduleId": "s", "revision": 1, "intervals": [{}]})
    assert after(plan, step).setpoint_w == after(step, plan).setpoint_w == 1000
    assert after(step, command("SCHEDULE", schedule={"scheduleId": "s", "intervals": []})).setpoint_w is None
    with pytest.raises(CommandRejected):
        after(command("SITE_SETPOINT"))
