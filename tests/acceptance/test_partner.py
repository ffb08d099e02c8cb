"""A trading partner with nothing but the answer that made the key: orders to a plant, their acks, the data it reads."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiormq
import httpx
import pytest

from gridfleet.sdk.partner import CommandKind, CommandRefused, Event, EventKind, Partner
from gridfleet.sdk.plant import DeviceEntry, Snapshot
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet, JsonObject
from support.clients.partner_address import address_of
from support.clients.trading_partner import WRITING, connected, make_key, start_trading
from support.servers.free_ports import free_ports
from support.servers.running_stack import RunningStack

ENDS = ("APPLIED", "REJECTED", "FAILED", "EXPIRED")


@dataclass
class Partnership:
    """An organisation that trades, and its template for batteries."""

    stack: RunningStack
    fleet: Fleet
    slug: str
    template: str

    def key(self, scopes: list[str] = WRITING, **members: Any) -> JsonObject:
        """A new key's create response."""
        return make_key(self.fleet, scopes, **members)

    def partner(self, created: JsonObject) -> AbstractAsyncContextManager[Partner]:
        """The partner's program."""
        return connected(self.fleet, self.slug, created)

    def read(self, created: JsonObject, path: str) -> httpx.Response:
        """What the key reads over REST."""
        return httpx.get(f"{self.stack.base_url}/api/v1/vcp/sites/{path}", headers={"X-API-Key": created["key"]}, timeout=30)


class Link:
    """A way to a local port that can be cut and joined again."""

    def __init__(self, port: int, target: int) -> None:
        self._port, self._target = port, target
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def join(self) -> None:
        """Lets connections through from now on."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """Ends all of them, and refuses new ones."""
        if self._server is not None:
            self._server.close()
        while self._writers:
            self._writers.pop().close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += writer, far_writer

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while chunk := await source.read(65_536):
                    target.write(chunk)
                    await target.drain()
            target.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


@pytest.fixture(scope="module")
def trading(stack: RunningStack) -> Iterator[Partnership]:
    """The queues stand in the vhosts of all keys that are made from now on."""
    fleet = Fleet(stack)
    try:
        yield Partnership(stack, fleet, start_trading(fleet), add_template(fleet))
    finally:
        fleet.close()


@pytest.fixture
def battery(trading: Partnership, tmp_path: Path) -> Battery:
    return Battery(trading.fleet, trading.template, tmp_path)


async def test_a_setpoint_from_the_partner_to_the_plant_and_back(trading: Partnership, battery: Battery) -> None:
    created = await asyncio.to_thread(trading.key)
    site = battery.plant.id
    async with battery.connected(), trading.partner(created) as partner:
        order = await partner.send(CommandKind.SETPOINT, site, powerKw=-12.5, durationSeconds=900, correlationId="trade-7")
        ended = await partner.wait_for(order, *ENDS)
        acks = partner.acks(order)

    [obeyed] = battery.obeyed
    assert (obeyed.type, obeyed.power_kw, obeyed.params) == ("SITE_SETPOINT", -12.5, {"durationSeconds": 900})
    assert [ack["ackStatus"] for ack in acks] == ["ACCEPTED", "APPLIED"]
    names = ("messageId", "correlationId", "siteId", "commandType")
    assert [ended[name] for name in names] == [order, "trade-7", site, "SITE_SETPOINT"]
    [entry] = trading.read(created, f"{site}/commands").json()["commands"]
    assert (entry["messageId"], entry["status"], entry["ackStatus"], entry["rejectionReason"]) == (
        order,
        "APPLIED",
        "APPLIED",
        None,
    )
    assert entry["payload"]["powerKw"] == -12.5
    assert entry["executedAt"] is not None
    log = f"/trading/plants/{site}/command-log"
    assert trading.fleet.call("GET", log)["data"] == [entry]
    assert trading.fleet.call("GET", f"{log}?commandType=EMERGENCY")["data"] == []
    details = trading.fleet.call("GET", "/trading/connection-details")
    assert (details["vhost"], details["port"]) == (created["apiKey"]["vhost"], trading.stack.ports["amqps_port"])


async def test_every_kind_of_order_reaches_the_plant(trading: Partnership, battery: Battery) -> None:
    created = await asyncio.to_thread(trading.key)
    site, now = battery.plant.id, datetime.now(UTC)
    interval = {"start": (now + timedelta(hours=1)).isoformat(), "durationSeconds": 900, "powerKw": 5}
    async with battery.connected(), trading.partner(created) as partner:
        orders = [
            await partner.send(CommandKind.CONSTRAINTS, site, constraints={"importLimitKw": 10}),
            await partner.send(CommandKind.FALLBACK, site, fallback={"mode": "STANDBY", "afterSeconds": 3600}),
            await partner.send(CommandKind.DEVICE, site, device="BAT1", action="set_power", params={"power_kw": 3}),
            await partner.send(CommandKind.SCHEDULE_SET, site, scheduleId="day", revision=1, intervals=[interval]),
            await partner.send(CommandKind.MODE, site, mode="CHARGE", expires_at=now + timedelta(minutes=10)),
        ]
        for order in orders:
            assert (await partner.wait_for(order, *ENDS))["ackStatus"] == "APPLIED"
        config = trading.read(created, f"{site}/config").json()
        beyond = await partner.send(CommandKind.SETPOINT, site, powerKw=10.5)
        assert (await partner.wait_for(beyond))["rejectionReason"] == "CONSTRAINT_VIOLATED"
        stop = await partner.send(CommandKind.MODE, site, mode="EMERGENCY_STOP")
        assert (await partner.wait_for(stop, *ENDS))["ackStatus"] == "APPLIED"
        late = await partner.send(CommandKind.SETPOINT, site, powerKw=1)
        assert (await partner.wait_for(late))["rejectionReason"] == "EMERGENCY_STOP_ACTIVE"

    kinds = [command.type for command in battery.obeyed]
    assert kinds == ["CONFIG", "CONFIG", "DEVICE_COMMAND", "SCHEDULE", "MODE_CHANGE", "EMERGENCY"]
    assert battery.obeyed[2].target == "BAT1"
    assert config["operatingMode"] == config["modeOverride"]["mode"] == "CHARGE"
    assert config["constraints"]["importLimitKw"] == 10
    assert config["fallback"] == {"mode": "STANDBY", "afterSeconds": 3600}
    assert [step["powerKw"] for step in config["activeSchedule"]["intervals"]] == [5]
    assert config["pendingCommands"] == []


async def test_a_schedule_is_stepped_on_in_time(trading: Partnership, battery: Battery) -> None:
    created = await asyncio.to_thread(trading.key)
    now = datetime.now(UTC)
    steps = [
        {"start": (now + timedelta(seconds=second)).isoformat(), "durationSeconds": duration, "powerKw": power}
        for second, duration, power in ((-1, 2, 1), (1, 11, 2), (12, 600, 3))
    ]
    async with battery.connected(), trading.partner(created) as partner:
        order = await partner.send(CommandKind.SCHEDULE_SET, battery.plant.id, scheduleId="s", revision=1, intervals=steps)
        await partner.wait_for(order, "APPLIED")
        async with asyncio.timeout(60):
            while battery.obeyed[-1].power_kw != 3:
                await asyncio.sleep(0.05)
    powers = [command.power_kw for command in battery.obeyed if command.type == "SITE_SETPOINT"]
    assert powers in ([1, 2, 3], [2, 3]), "each step once; the first one's time may have passed"


async def test_an_event_that_was_not_worked_off_comes_again(trading: Partnership) -> None:
    created = await asyncio.to_thread(trading.key)
    async with trading.partner(created) as partner, asyncio.timeout(30):
        await partner.send(CommandKind.SETPOINT, str(uuid4()), powerKw=1)
        failed = await anext(acknowledgements := partner.events(EventKind.COMMAND_ACK))
        await acknowledgements.aclose()
        worked_off = await anext(acknowledgements := partner.events(EventKind.COMMAND_ACK))
        assert worked_off.id == failed.id
        order = await partner.send(CommandKind.SETPOINT, str(uuid4()), powerKw=1)
        assert (await anext(acknowledgements)).content["messageId"] == order, "asking for the next one works off the one before"


async def test_a_partner_waits_for_acks_again_after_its_patience_has_ended(trading: Partnership) -> None:
    created = await asyncio.to_thread(trading.key)
    authority = (trading.stack.home / "ca" / "ca.pem").read_text()
    [port] = free_ports(1)
    there = f":{trading.stack.ports['amqps_port']}/"
    address = address_of(trading.stack, trading.slug, created).replace(there, f":{port}/")
    link = Link(port, int(trading.stack.ports["amqps_port"]))
    await link.join()
    try:
        async with (
            Partner(address, signing_key=created["signingKey"], authority=authority, patience_seconds=0.3) as partner,
            asyncio.timeout(30),
        ):
            order = await partner.send(CommandKind.SETPOINT, str(uuid4()), powerKw=1)
            await partner.wait_for(order)
            await link.cut()
            with pytest.raises(ConnectionError):
                await partner.wait_for("none of ours")
            await link.join()
            order = await partner.send(CommandKind.SETPOINT, str(uuid4()), powerKw=1)
            assert (await partner.wait_for(order))["rejectionReason"] == "SITE_UNKNOWN"
    finally:
        await link.cut()


async def test_unsigned_forged_and_foreign_orders_do_nothing(trading: Partnership, battery: Battery) -> None:
    created = await asyncio.to_thread(trading.key)
    limited = await asyncio.to_thread(trading.key, [*WRITING[:3], "vcp:write:mode"], allowedPlantIds=[battery.plant.id])
    site = battery.plant.id
    async with trading.partner({**created, "signingKey": None}) as partner:
        order = await partner.send(CommandKind.MODE, site, mode="AUTO")
        assert (await partner.wait_for(order))["rejectionReason"] == "SIGNATURE_MISSING"
    async with trading.partner({**created, "signingKey": limited["signingKey"]}) as partner:
        order = await partner.send(CommandKind.MODE, site, mode="AUTO")
        assert (await partner.wait_for(order))["rejectionReason"] == "SIGNATURE_INVALID"
    async with trading.partner(created) as partner:
        order = await partner.send(CommandKind.SETPOINT, str(uuid4()), powerKw=1)
        assert (await partner.wait_for(order))["rejectionReason"] == "SITE_UNKNOWN"
    other = trading.fleet.plant()
    async with trading.partner(limited) as partner:
        order = await partner.send(CommandKind.SETPOINT, other.id, powerKw=1)
        assert (await partner.wait_for(order))["rejectionReason"] == "SITE_NOT_ALLOWED"
        with pytest.raises(CommandRefused):
            await partner.send(CommandKind.DEVICE, site, device="BAT1", action="stop")
        order = await partner.send(CommandKind.SETPOINT, site, powerKw=1)
        assert (await partner.wait_for(order))["ackStatus"] == "ACCEPTED"
    assert trading.read(limited, f"{other.id}/config").status_code == 403
    assert trading.read(limited, f"{site}/config").status_code == 200


async def test_a_copy_does_not_carry_what_the_scope_forbids(trading: Partnership, battery: Battery) -> None:
    """The broker refuses copies to another routing key. The gateway refuses a CC with the message's own key."""
    created = await asyncio.to_thread(trading.key, WRITING[:3])
    carried_out = 0
    authority = trading.stack.home / "ca" / "ca.pem"
    connection = await aiormq.connect(f"{address_of(trading.stack, trading.slug, created)}?cafile={authority}")
    async with trading.partner(created) as partner, connection:
        for header in ("CC", "BCC"):
            for key in (f"{trading.slug}.command.mode", f"{trading.slug}.command.site-setpoint"):
                body = {
                    "messageId": str(uuid4()),
                    "siteId": battery.plant.id,
                    "issuedAt": datetime.now(UTC).isoformat(),
                    "mode": "AUTO",
                    "powerKw": 1,
                }
                channel = await connection.channel()
                try:
                    await channel.basic_publish(
                        json.dumps(body).encode(),
                        exchange="vcp",
                        routing_key=f"{trading.slug}.command.site-setpoint",
                        properties=aiormq.spec.Basic.Properties(headers={header: [key]}),
                    )
                except aiormq.exceptions.ChannelAccessRefused:
                    assert key.endswith(".command.mode")
                    continue
                ack = await partner.wait_for(body["messageId"])
                # The broker removes BCC from what it delivers: the message counts for its own routing key, and once.
                assert ack.get("rejectionReason") == ("MALFORMED" if header == "CC" else None)
                assert ack["commandType"] == "SITE_SETPOINT"
                carried_out += header == "BCC"
    assert carried_out >= 1
    rows = trading.fleet.sql("SELECT type FROM plant_command WHERE plant_id = %s", [battery.plant.id])
    assert rows == [("SITE_SETPOINT",)] * carried_out


async def test_a_partner_receives_events_of_the_plants_that_it_may_see(trading: Partnership, battery: Battery) -> None:
    plant = battery.plant
    seeing = await asyncio.to_thread(trading.key, ["vcp:connect"], allowedPlantIds=[plant.id])
    blind = await asyncio.to_thread(trading.key, ["vcp:connect"], allowedPlantIds=[trading.fleet.plant().id])
    rule = {"name": "Hot", "metric": "heat", "condition": "GT", "threshold": 70, "plantId": plant.id}
    await asyncio.to_thread(trading.fleet.call, "POST", "/alert-rules", rule)
    plant.add_device("INV1")
    now = datetime.now(UTC).replace(microsecond=0)

    async def first(partner: Partner, kind: EventKind) -> Event:
        async with asyncio.timeout(20):
            return await anext(aiter(partner.events(kind)))

    async with trading.partner(seeing) as partner, trading.partner(blind) as outsider:
        nothing = [asyncio.create_task(anext(aiter(outsider.events(kind)))) for kind in EventKind]
        async with battery.connected() as client:
            old = Snapshot(time=now - timedelta(minutes=16), devices=[DeviceEntry("INV1", {"heat": 71.5})])
            await client.send(old)
            await client.send(Snapshot(time=now, fields={"load": 2}, devices=[DeviceEntry("INV1", {"heat": 71.5})]))
            telemetry = await first(partner, EventKind.TELEMETRY)
            status = await first(partner, EventKind.STATUS)
            alert = await first(partner, EventKind.ALERT)
        assert not any(task.done() for task in nothing)
        for task in nothing:
            task.cancel()

    assert telemetry.content == {
        "siteId": plant.id,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "values": {"load": 2.0},
        "devices": [{"id": "INV1", "values": {"heat": 71.5}}],
    }
    assert (status.content["siteId"], status.content["status"]) == (plant.id, "ONLINE")
    assert (alert.content["siteId"], alert.content["severity"], alert.content["status"]) == (plant.id, "WARNING", "ACTIVE")
