"""Simulation of one plant: fill the past, then send in real time, and write the ledger."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import msgspec

from gridfleet.protocol.envelope import RefusalReason, Snapshot, format_time, sign_message
from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import AuthMethod, ConnectFailed, Options, PlantClient, PlantClientError, SignedTokens
from gridfleet.simulator.faults import Fault, due, in_gap
from gridfleet.simulator.ledger import Ledger
from gridfleet.simulator.physics import WMS_PER_KWH
from gridfleet.simulator.plan import DAY_MS, Plan
from gridfleet.simulator.plant import Measured, SimulatedPlant
from gridfleet.simulator.state import StateFolder

__all__ = ["PlantResult", "PlantRun", "Progress"]

Progress = Callable[[str], None]

_HISTORY_CHUNK: Final = 200
_HISTORY_WAITING: Final = 1_000
_DRAIN_SECONDS: Final = 30
_SAME_PROBLEM_SECONDS: Final = 60
_SKEW_MS: Final = 2 * 3_600_000
"""Well beyond the limit of ten minutes: the service also allows for the time that a message waited in the broker."""


@dataclass(slots=True)
class PlantResult:
    """Results of a plant's snapshots, and its energies of the last day in kWh."""

    serial_number: str
    plant_id: str
    auth_method: AuthMethod
    devices: int
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    """Messages sent to be refused."""
    waiting: int = 0
    connected: bool = False
    date: str = ""
    produced: float = 0
    imported: float = 0
    exported: float = 0


class PlantRun:
    """The run of one plant."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        plants: int,
        plant: SimulatedPlant,
        state: StateFolder,
        ledger: Ledger,
        base_url: str,
        stop: asyncio.Event,
        report: Progress,
    ) -> None:
        registered = plant.registered
        self.result = PlantResult(
            registered.serial_number, plant.id, registered.package.auth_method, len(registered.site.devices)
        )
        self._plan = plan
        self._number = number
        self._phase_seconds = plan.interval_ms / 1000 / plan.speed * number / plants
        self._plant = plant
        self._state = state
        self._ledger = ledger
        self._token_url = f"{base_url}/api/v1/plants/{plant.id}/mqtt-token/renew"
        self._stop = stop
        self._report = report
        self._pending: dict[int, Measured] = {}
        self._held: list[Measured] = []
        self._reported: dict[type[PlantClientError], float] = {}

    async def run(self) -> None:
        """Simulate the plant until the plan's duration ends or the simulation is stopped.

        Raises:
            PlantClientError: The plant's queue cannot be used.
        """
        plant = self._plant
        package = plant.registered.package
        self._ledger.write(
            "plant",
            plantId=plant.id,
            serialNumber=self.result.serial_number,
            authMethod=self.result.auth_method,
            devices=[{"externalId": device.external_id, "type": device.type} for device in plant.registered.site.devices],
        )
        async with PlantClient(
            package,
            queue_path=self._state.queue_path(plant.id),
            on_command=plant.execute,
            # Not the URL of the package: the simulator reaches the service at the address that it was given.
            token_provider=SignedTokens(package, self._token_url) if package.auth_method is AuthMethod.TOKEN else None,
            on_problem=self._note,
            on_delivered=self._delivered,
            firmware="simulator",
            options=Options(fsync=False),
        ) as client:
            live_start_ms = self._plan.live_start_ms(_now_ms())
            await self._send_history(client, live_start_ms)
            await self._live(client, live_start_ms)
            with contextlib.suppress(TimeoutError):
                await client.drain(timeout_seconds=_DRAIN_SECONDS)
        self.result.waiting = client.waiting
        self._write_totals()

    async def _send_history(self, client: PlantClient, until_ms: int) -> None:
        """Fill the past as fast as the broker confirms it, within the limit of the queue."""
        interval_ms = self._plan.history_interval_ms
        time_ms = self._first_time(until_ms - int(self._plan.history_days * DAY_MS), interval_ms)
        chunk: list[Measured] = []
        while time_ms < until_ms and self._plan.history_days and not self._stop.is_set():
            chunk.append(self._plant.advance(time_ms, interval_ms))
            time_ms += interval_ms
            if len(chunk) == _HISTORY_CHUNK or time_ms >= until_ms:
                await self._send(client, chunk)
                chunk = []
                await self._unless_stopped(client.drain(below=_HISTORY_WAITING))

    async def _live(self, client: PlantClient, start_ms: int) -> None:
        plan = self._plan
        began_ms = _now_ms()
        first_ms = time_ms = self._first_time(start_ms, plan.interval_ms)
        step = 0
        while True:
            due_ms = max(time_ms, began_ms + (time_ms - first_ms) / plan.speed) + self._phase_seconds * 1000
            if plan.duration_seconds is not None and due_ms > began_ms + plan.duration_seconds * 1000:
                await self._unless_stopped(asyncio.sleep(began_ms / 1000 + plan.duration_seconds - time.time()))
                break
            await self._unless_stopped(asyncio.sleep(due_ms / 1000 - time.time()))
            if self._stop.is_set():
                break
            self.result.connected = client.connected
            await self._step(client, time_ms, step)
            time_ms += plan.interval_ms
            step += 1
        await self._release_held(client)

    async def _step(self, client: PlantClient, time_ms: int, step: int) -> None:
        if self._happens(Fault.COUNTER_RESET, step):
            self._plant.reset_counters()
            self._ledger.write("fault", plantId=self._plant.id, fault=Fault.COUNTER_RESET, time=_text(time_ms))
        measured = self._plant.advance(time_ms, self._plan.interval_ms)
        if Fault.GAP in self._plan.faults and in_gap(self._number, step):
            self._held.append(measured)
            return
        await self._release_held(client)
        await self._send(client, [measured])
        if self._happens(Fault.BAD_SIGNATURE, step):
            await self._send_wrong(client, measured.snapshot, RefusalReason.SIGNATURE_INVALID)
        if self._happens(Fault.CLOCK_SKEW, step):
            await self._send_wrong(client, measured.snapshot, RefusalReason.TIMESTAMP_OUT_OF_WINDOW)

    def _happens(self, fault: Fault, step: int) -> bool:
        return fault in self._plan.faults and due(fault, self._number, step)

    async def _release_held(self, device: PlantClient) -> None:
        if self._held:
            first, held, self._held = self._held[0].snapshot, self._held, []
            self._ledger.write(
                "fault", plantId=self._plant.id, fault=Fault.GAP, time=_text(_milliseconds(first)), snapshots=len(held)
            )
            await self._send(device, held)

    async def _send(self, client: PlantClient, measured: Sequence[Measured]) -> None:
        # The state is saved first: after a kill counters may skip a step but never run backwards.
        if (saved := self._plant.saved()) is not None:
            self._state.save_plant(self._plant.id, saved)
        numbers = await client.send_all([one.snapshot for one in measured])
        self._pending.update(zip(numbers, measured, strict=True))
        self.result.sent += len(numbers)

    async def _send_wrong(self, client: PlantClient, snapshot: Snapshot, reason: RefusalReason) -> None:
        """Publish a message that must be refused, with a measurement one millisecond late, which shows if it is stored."""
        package = client.package
        moment = datetime.fromtimestamp(_milliseconds(snapshot) / 1000, UTC) + timedelta(milliseconds=1)
        wrong = Snapshot(time=moment, fields=snapshot.fields, devices=snapshot.devices)
        skewed = reason is RefusalReason.TIMESTAMP_OUT_OF_WINDOW
        key = package.signing_key if skewed else bytes(32)
        sent_at = _now_ms() + (_SKEW_MS if self._number % 2 else -_SKEW_MS) * skewed
        message_id = f"wrong-{uuid4()}"
        message = sign_message(key, package.mqtt.topics.telemetry, message_id, sent_at, msgspec.json.encode(wrong))
        try:
            await client.publish_signed(Channel.TELEMETRY, message)
        except ConnectFailed:
            return  # a fault that could not be sent is not in the ledger either
        self.result.refused += 1
        self._ledger.write(
            "refused", plantId=self._plant.id, reason=reason, messageId=message_id, sentAt=sent_at, time=format_time(moment)
        )

    def _first_time(self, start_ms: int, interval_ms: int) -> int:
        """Return the first multiple of the interval after the start and after everything simulated before."""
        after = max(start_ms - 1, self._plant.time_ms or 0)
        return (after // interval_ms + 1) * interval_ms

    def _delivered(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            measured = self._pending.pop(number, None)
            if measured is not None:  # None: left in the queue by an earlier run
                self.result.acknowledged += 1
                self._write_snapshot(measured, acknowledged=True)

    def _write_snapshot(self, measured: Measured, *, acknowledged: bool) -> None:
        moment = _text(_milliseconds(measured.snapshot))
        self._ledger.write("snapshot", plantId=self._plant.id, time=moment, values=measured.expected, acknowledged=acknowledged)

    def _note(self, error: PlantClientError) -> None:
        now = time.monotonic()
        if now > self._reported.get(type(error), -_SAME_PROBLEM_SECONDS) + _SAME_PROBLEM_SECONDS:
            self._reported[type(error)] = now
            self._report(f"{self.result.serial_number}: {type(error).__name__}: {error}")

    def _write_totals(self) -> None:
        for measured in self._pending.values():
            self._write_snapshot(measured, acknowledged=False)
        for date, energy in sorted(self._plant.days.items()):
            kwh = {
                name: round(value / WMS_PER_KWH, 6)
                for name, value in (
                    ("produced", energy.produced_wms),
                    ("imported", energy.imported_wms),
                    ("exported", energy.exported_wms),
                )
            }
            self._ledger.write("energy", plantId=self._plant.id, date=date, **kwh)
            self.result.date = date
            self.result.produced, self.result.imported, self.result.exported = kwh.values()

    async def _unless_stopped(self, waiting: Awaitable[Any]) -> None:
        """Wait, but only until the simulation is stopped."""
        stopped = asyncio.create_task(self._stop.wait())
        other = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({stopped, other}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            other.cancel()
        if other.done() and not other.cancelled() and (error := other.exception()) is not None:
            raise error


def _now_ms() -> int:
    return int(time.time() * 1000)


def _milliseconds(snapshot: Snapshot) -> int:
    assert isinstance(snapshot.time, datetime)
    return round(snapshot.time.timestamp() * 1000)


def _text(time_ms: int) -> str:
    return format_time(datetime.fromtimestamp(time_ms / 1000, UTC))
