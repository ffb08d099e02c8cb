"""A simulated plant counts its days as the service does, obeys commands, and goes on where it stopped."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES
from gridfleet.domains.telemetry.energy.arithmetic import counter_increase
from gridfleet.sdk.plant import AuthMethod, Command, CommandRejected, Package
from gridfleet.simulator.errors import SimulationError
from gridfleet.simulator.faults import GAP_STEPS, Fault, due, in_gap
from gridfleet.simulator.fleet import design_fleet
from gridfleet.simulator.measurements import GRID, PLANT
from gridfleet.simulator.physics import WMS_PER_KWH
from gridfleet.simulator.plan import Plan
from gridfleet.simulator.plant import SimulatedPlant
from gridfleet.simulator.registration import RegisteredPlant
from gridfleet.simulator.signals import Signal, SignalWriter
from gridfleet.simulator.state import Energy, StateFolder

MIDNIGHT = 1_782_000_000_000  # 2026-06-21T00:00:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE
SITE = design_fleet(1, 1)[0]
PACKAGE = Package.parse(
    json.dumps(
        {
            "plantId": "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d",
            "authMethod": "PASSWORD",
            "mqtt": {
                "broker": "localhost",
                "port": 1883,
                "tls": False,
                "clientId": "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d",
                "topics": {"telemetry": "t", "status": "s", "commands": "c", "ack": "a"},
            },
            "security": {"hmacSecret": "00" * 32, "password": "p"},
        }
    )
)


def registered() -> RegisteredPlant:
    by_type = {
        PLANT if template.level == "PLANT" else str(template.type): SignalWriter(
            msgspec.convert(template.signals, list[Signal])
        )
        for template in SYSTEM_TEMPLATES
    }
    writers = {PLANT: by_type[PLANT]} | {device.external_id: by_type[device.type] for device in SITE.devices}
    return RegisteredPlant(PACKAGE.plant_id, SITE.serial_number, SITE, PACKAGE, writers)


def command(action: str, target: str | None, **params: object) -> Command:
    now = datetime.now(UTC)
    return Command("c1", "DEVICE_COMMAND", target, now, now + timedelta(seconds=30), action=action, params=params)


pauses = st.sampled_from([300, 500, MINUTE, 10 * MINUTE, 14 * MINUTE, 50 * MINUTE, 3 * HOUR])


@settings(max_examples=100)
@given(st.sampled_from([-2 * HOUR, 11 * HOUR]), st.lists(pauses, max_size=40), st.none() | st.integers(0, 39))
def test_energies_of_a_day_are_those_that_the_service_computes(begin: int, steps: list[int], reset_at: int | None) -> None:
    plant = SimulatedPlant(registered(), None)
    time_ms = MIDNIGHT + begin
    readings: dict[int, dict[str, float]] = {}
    for number, length in enumerate([MINUTE, *steps]):
        time_ms += length
        if number == reset_at:
            plant.reset_counters()
        readings[time_ms // 1000] = plant.advance(time_ms, MINUTE).expected  # the service reads the last value of each second

    before = [values for second, values in readings.items() if MIDNIGHT - HOUR <= second * 1000 < MIDNIGHT]
    within = [values for second, values in readings.items() if MIDNIGHT <= second * 1000 < MIDNIGHT + 24 * HOUR]
    day = plant.days.get("2026-06-21", Energy())
    for energy, counters in (
        (day.produced_wms, [f"{pv.id}.energy_produced" for pv in SITE.design.pvs]),
        (day.imported_wms, [f"{GRID}.energy_imported"]),
        (day.exported_wms, [f"{GRID}.energy_exported"]),
    ):
        counted = sum(counter_increase([values[counter] for values in before[-1:] + within]) for counter in counters)
        assert energy / WMS_PER_KWH == pytest.approx(counted if within else 0.0, abs=1e-5)


def test_a_snapshot_holds_every_device_and_its_expected_values() -> None:
    measured = SimulatedPlant(registered(), None).advance(MIDNIGHT + 12 * HOUR, 5000)

    assert [entry.id for entry in measured.snapshot.devices] == [device.external_id for device in SITE.devices]
    assert measured.expected["GRID.active_power"] == measured.expected["active_power"]
    assert {"CAB1.door_open", "PV1.running", "BAT1.soc", "GRID.energy_imported", "load_power"} <= measured.expected.keys()
    assert measured.snapshot.fields.keys() >= {"active_power", "status"}


def test_a_plant_goes_on_where_it_stopped(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    plant = SimulatedPlant(registered(), state.load_plant(PACKAGE.plant_id))
    assert plant.saved() is None
    first = plant.advance(MIDNIGHT + HOUR, MINUTE).expected
    saved = plant.saved()
    assert saved is not None
    state.save_plant(PACKAGE.plant_id, saved)

    again = SimulatedPlant(registered(), state.load_plant(PACKAGE.plant_id))
    later = again.advance(MIDNIGHT + 9 * HOUR, MINUTE).expected

    assert again.time_ms == MIDNIGHT + 9 * HOUR
    for key in first:
        if ".energy_" in key:
            assert 0 <= later[key] - first[key] < 60 / 60 * 1.0, "a pause of hours counts as one step"


async def test_commands_of_the_system_templates_take_effect() -> None:
    plant = SimulatedPlant(registered(), None)
    noon = MIDNIGHT + 12 * HOUR
    await plant.execute(command("set_power", "BAT1", power_kw=-1.5))
    await plant.execute(command("set_power_limit", "PV1", power_kw=0.5))
    await plant.execute(command("reset_fault", "CAB1"))
    shown = plant.advance(noon, MINUTE).expected
    assert shown["BAT1.active_power"] == -1.5
    assert shown["PV1.active_power"] == 0.5

    await plant.execute(command("stop", "PV1"))
    assert plant.advance(noon + MINUTE, MINUTE).expected["PV1.running"] == 0
    await plant.execute(command("start", "PV1"))
    assert plant.advance(noon + 2 * MINUTE, MINUTE).expected["PV1.active_power"] > 0.5


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (command("stop", "PV9"), "DEVICE_UNKNOWN"),
        (command("stop", None), "DEVICE_UNKNOWN"),
        (command("set_power", "PV1", power_kw=1), "ACTION_UNKNOWN"),
        (command("set_power", "BAT1", power_kw=1e6), "OUT_OF_RANGE"),
        (command("set_power", "BAT1"), "PARAMS_INVALID"),
    ],
)
async def test_other_commands_are_rejected(asked: Command, code: str) -> None:
    with pytest.raises(CommandRejected) as raised:
        await SimulatedPlant(registered(), None).execute(asked)
    assert raised.value.code == code


def test_state_is_private_and_damage_is_said(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    state.save_package("p", msgspec.json.encode(PACKAGE))

    assert state.load_package("p") == PACKAGE
    assert state.load_package("q") is None
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "state").iterdir())

    (tmp_path / "state" / "p.state.json").write_text("{")
    with pytest.raises(SimulationError, match="remove it"):
        state.load_plant("p")


def test_every_fault_happens_early_and_again() -> None:
    for number in range(4):
        for fault in Fault:
            happened = [step for step in range(1500) if due(fault, number, step)]
            assert happened[0] < 10
            assert len(happened) >= 2
        held = [step for step in range(100) if in_gap(number, step)]
        assert len(held) == GAP_STEPS
        assert held == list(range(held[0], held[0] + GAP_STEPS))


def test_faster_time_catches_up_when_the_duration_ends() -> None:
    now = MIDNIGHT + 10 * HOUR
    assert Plan().live_start_ms(now) == now
    assert Plan(speed=60).live_start_ms(now) == MIDNIGHT
    assert Plan(speed=60, duration_seconds=60).live_start_ms(now) == now - 59 * MINUTE


def test_methods_take_turns() -> None:
    assert {site.auth_method for site in design_fleet(3, 1)} == set(AuthMethod)
