"""Parts killed and hung while partners give orders: none is lost, none is carried out twice, each has its one history."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.secrets import local_secret
from gridfleet.sdk.partner import CommandKind, Partner
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet, JsonObject, wait_for
from support.clients.trading_partner import AckLedger, connected, make_key, start_trading
from support.servers.running_stack import RunningStack

PARTNERS = 2
AWAY_SECONDS = 150
"""More than two of the minutes for which the broker caches answers about rights."""
HISTORY = (
    "SELECT v.message_id, v.status, v.ack_status, count(*), count(c.id) FROM vcp_command v"
    " LEFT JOIN plant_command c ON c.id = v.id WHERE v.organization_id = %s GROUP BY 1, 2, 3"
)


async def give_orders(partner: Partner, site: str, orders: list[str], stop: asyncio.Event) -> None:
    """Setpoints until stopped."""
    while not stop.is_set():
        order = await partner.send(CommandKind.SETPOINT, site, powerKw=len(orders) % 50)
        orders.append(order)
        await asyncio.sleep(0.1)


async def orders_under_kills(victim: RunningStack, fleet: Fleet, folder: Path, names: list[str]) -> int:
    """Kills these parts one after the other while orders flow, and compares the ledgers; how many orders there were."""
    slug, template = start_trading(fleet), add_template(fleet)
    ledgers = [AckLedger() for _ in range(PARTNERS)]
    given: list[list[str]] = [[] for _ in range(PARTNERS)]
    batteries = [Battery(fleet, template, folder) for _ in range(PARTNERS)]
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        partners = []
        for battery, ledger in zip(batteries, ledgers, strict=True):
            await stack.enter_async_context(battery.connected())
            created = await asyncio.to_thread(make_key, fleet, allowedPlantIds=[battery.plant.id])
            partner = await stack.enter_async_context(connected(fleet, slug, created))
            await stack.enter_async_context(ledger.kept(partner))
            partners.append(partner)
        giving = [
            asyncio.create_task(give_orders(partner, battery.plant.id, orders, stop))
            for partner, battery, orders in zip(partners, batteries, given, strict=True)
        ]
        for name in names:
            await asyncio.sleep(random.uniform(0.2, 1.5))
            await asyncio.to_thread(wait_for, lambda: all(given))  # on a busy machine, the first order takes longer
            pid = victim.kill(name)
            await asyncio.to_thread(victim.wait_for_restart, name, pid)
            await ledgers[0].ended([given[0][-1]], 120)
        stop.set()
        await asyncio.gather(*giving)
        for ledger, orders in zip(ledgers, given, strict=True):
            await ledger.ended(orders, 60)
    for battery, ledger, orders in zip(batteries, ledgers, given, strict=True):
        obeyed = [command.command_id for command in battery.obeyed]
        assert len(obeyed) == len(set(obeyed)) == len(orders), "each obeyed once"
        assert [command.power_kw for command in battery.obeyed] == [number % 50 for number in range(len(orders))], "in order"
        assert set(ledger.acks) == set(orders)
        assert {tuple(acks) for acks in ledger.acks.values()} == {("ACCEPTED", "APPLIED")}, "one event for each step"
    everything = [order for orders in given for order in orders]
    histories = fleet.sql(HISTORY, [fleet.organization_id])
    assert sorted(row[0] for row in histories) == sorted(everything)
    assert {row[1:] for row in histories} == {("APPLIED", "APPLIED", 1, 1)}
    left = "SELECT count(*) FROM partner_event WHERE organization_id = %s"
    await asyncio.to_thread(wait_for, lambda: fleet.sql(left, [fleet.organization_id]) == [(0,)])
    return len(everything)


@pytest.mark.slow
async def test_two_kills_of_the_gateway_lose_and_double_no_order(victim: RunningStack, fleet: Fleet, tmp_path: Path) -> None:
    print(await orders_under_kills(victim, fleet, tmp_path, ["gateway"] * 2), "orders, all applied once")


@pytest.mark.slow
async def test_a_kill_of_the_broker_loses_and_doubles_no_order(victim: RunningStack, fleet: Fleet, tmp_path: Path) -> None:
    print(await orders_under_kills(victim, fleet, tmp_path, ["broker"]), "orders, all applied once")


@pytest.mark.faults
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", ["gateway", "ingest-1", "postgres", "broker"])
async def test_ten_kills_of_a_part_lose_and_double_no_order(
    victim: RunningStack, fleet: Fleet, tmp_path: Path, name: str
) -> None:
    print(name, await orders_under_kills(victim, fleet, tmp_path, [name] * 10), "orders, all applied once")


async def connections(victim: RunningStack) -> set[str]:
    """The names of the connections that clients from outside have with the broker."""
    settings: dict[str, Any] = {"home": victim.home, **victim.ports}
    url = PrivateBroker(Settings(**settings)).management_url
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{url}/api/connections?columns=name,user")
        return {one["name"] for one in answer.json() if not one["user"].startswith("_gridfleet")}


def ask(victim: RunningStack, question: str, **form: str) -> str:
    """What the service answers the broker."""
    secret = local_secret(victim.home, "internal_secret")
    address = f"http://127.0.0.1:{victim.ports['internal_port']}/{secret}/broker/{question}"
    return httpx.post(address, data=form, timeout=30).text


@pytest.mark.slow
def test_a_hung_database_takes_no_partner_s_rights_and_gives_none(victim: RunningStack, fleet: Fleet) -> None:
    slug = start_trading(fleet)
    known, unknown = make_key(fleet)["apiKey"], make_key(fleet)["apiKey"]

    def may(key: JsonObject, routing_key: str) -> str:
        tags, vhost = f"key-{key['id']}", key["vhost"]
        form = {"name": "vcp", "permission": "write", "routing_key": routing_key}
        return ask(victim, "topic", username=slug, tags=tags, vhost=vhost, resource="topic", **form)

    own, foreign = f"{slug}.command.site-setpoint", "other.command.site-setpoint"
    assert (may(known, own), may(known, foreign)) == ("allow", "deny")
    # Idle connections: a query on one of them gets no answer and no error from a server that is suspended.
    with ThreadPoolExecutor(10) as asking:
        list(asking.map(lambda _: may(known, own), range(200)))
    with victim.hung("postgres"):
        assert (may(known, own), may(known, foreign)) == ("allow", "deny")
        assert may(unknown, own) not in ("allow", "deny"), "of whom nothing is known nothing is said"
        login = ask(victim, "user", username=slug, password="gf_live_" + "a1B2" * 9 + "zz")
        assert not login.startswith(("allow", "deny"))
    wait_for(lambda: may(unknown, own) == "allow")


@pytest.mark.faults
async def test_orders_and_measurements_go_on_while_the_database_hangs(
    victim: RunningStack, fleet: Fleet, tmp_path: Path
) -> None:
    """No connection ends, though the broker asks about all rights meanwhile; what was ordered is done afterwards."""
    slug, battery = start_trading(fleet), Battery(fleet, add_template(fleet), tmp_path)
    created = await asyncio.to_thread(make_key, fleet)
    ledger, orders, stop = AckLedger(), list[str](), asyncio.Event()
    async with battery.connected(), connected(fleet, slug, created) as partner, ledger.kept(partner):
        giving = asyncio.create_task(give_orders(partner, battery.plant.id, orders, stop))
        await asyncio.to_thread(wait_for, lambda: orders)
        await ledger.ended(orders[:1], 60)
        before = await connections(victim)
        with victim.hung("postgres"):
            await asyncio.sleep(AWAY_SECONDS)
            assert await connections(victim) == before, "the same connections"
        stop.set()
        await giving
        assert len(orders) > AWAY_SECONDS, "the broker took them all the while"
        await ledger.ended(orders, 120)
    assert [command.power_kw for command in battery.obeyed] == [number % 50 for number in range(len(orders))]
