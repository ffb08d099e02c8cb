"""More than one of each process: nothing is done twice, and what one ends has ended in all."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gridfleet.protocol.envelope import format_time
from gridfleet.sdk.partner import CommandKind, Partner
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet, wait_for
from support.clients.trading_partner import AckLedger, connected, make_key, start_trading
from support.figures import Figure
from support.servers.balancer import balanced
from support.servers.postbox import delivered
from support.servers.several_processes import Several, several

pytestmark = [pytest.mark.slow]

PASSWORD = "Correct horse 1!"
PARTS = ("serve-b", "gateway", "jobs", "ingest-2", "gateway-b", "ingest-1", "jobs-b", "ingest-3")
SITES = 2
RULES = 3
READERS = 3
GOAL_MILLISECONDS = 500


@pytest.fixture(scope="module")
def crowd() -> Iterator[Several]:
    with (
        TemporaryDirectory(prefix="gridfleet-several-", ignore_cleanup_errors=True) as folder,
        several(Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def fleet(crowd: Several) -> Iterator[Fleet]:
    found = Fleet(crowd.stack)
    try:
        yield found
    finally:
        found.close()


@dataclass
class Site:
    """A battery, what its partner and its operator ordered, and what became of it."""

    battery: Battery
    api: httpx.Client
    """One of the two api processes."""
    ledger: AckLedger = field(default_factory=AckLedger)
    orders: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    points: int = 0
    unanswered: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep_busy(self, partner: Partner, stop: asyncio.Event) -> None:
        """A partner's order, an operator's command and a measurement, again and again."""
        plant = self.battery.plant
        async with await self.meter.connect() as connection:
            while not stop.is_set():
                self.orders.append(await partner.send(CommandKind.SETPOINT, plant.id, powerKw=len(self.orders) % 50))
                answer = await asyncio.to_thread(self.command)
                if answer is not None:
                    self.commands.append(answer)
                moment = format_time(datetime.now(UTC))
                await connection.publish(self.meter.topic(), self.meter.signed({"time": moment, "fields": {"heat": 90}}))
                self.points += 1
                self.started.set()
                await asyncio.sleep(0.15)

    def __post_init__(self) -> None:
        self.meter = self.battery.fleet.plant()

    def command(self) -> str | None:
        """A command's id; None when the process was killed meanwhile."""
        try:
            answer = self.api.post(self.battery.path, json={"action": "wait"})
        except httpx.TransportError:
            self.unanswered += 1
            return None
        assert answer.status_code in (200, 201, 500), answer.text
        return str(answer.json()["commandId"]) if answer.is_success else None


def client_of(base_url: str, headers: Mapping[str, str]) -> httpx.Client:
    """A client of one of the api processes."""
    return httpx.Client(base_url=f"{base_url}/api/v1", timeout=30, headers=dict(headers))


def log_in(fleet: Fleet, base_url: str) -> dict[str, str]:
    """Headers of a new session of the SuperAdmin's, who acts in the organisation."""
    login = {"email": fleet.stack.admin_email, "password": fleet.stack.admin_password}
    answer = httpx.post(f"{base_url}/api/v1/auth/login", json=login, timeout=30)
    assert answer.status_code == 200, answer.text
    return {"x-org-id": fleet.organization_id, "authorization": f"Bearer {answer.json()['access_token']}"}


def refused(ask: Callable[[], httpx.Response], refusal: int) -> float:
    """Milliseconds that the answer takes, which must be the refusal: the first call finds what has ended ended."""
    started = time.perf_counter()
    answer = ask()
    assert answer.status_code == refusal, f"let in once more: {answer.status_code} {answer.text}"
    return (time.perf_counter() - started) * 1000


def add_person(fleet: Fleet, role: str = "OPERATOR") -> str:
    """The e-mail of a new member with PASSWORD."""
    email = f"{uuid4().hex}@example.com"
    user = fleet.call("POST", "/auth/register", {"email": email, "name": "Ada", "password": PASSWORD})["user"]
    fleet.sql(
        "INSERT INTO membership (id, organization_id, user_id, role) VALUES (%s, %s, %s, %s)",
        [uuid4(), fleet.organization_id, user["id"], role],
    )
    return email


async def busy_while(
    crowd: Several, fleet: Fleet, folder: Path, names: list[str], end: Callable[[str], Awaitable[None]], apis: Sequence[str]
) -> dict[str, int]:
    """Orders, commands and measurements while these parts are ended one after the other; compares all ledgers."""
    slug, template = await asyncio.to_thread(start_trading, fleet), add_template(fleet)
    email = add_person(fleet)
    for number in range(RULES):
        rule = {"name": f"Hot {number}", "metric": "heat", "condition": "GT", "threshold": 70, "severity": "CRITICAL"}
        fleet.call("POST", "/alert-rules", rule)
    clients = [client_of(url, fleet.headers) for url in apis]
    sites = [Site(Battery(fleet, template, folder), clients[number % len(clients)]) for number in range(SITES)]
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        busy = []
        for site in sites:
            await stack.enter_async_context(site.battery.connected())
            created = await asyncio.to_thread(make_key, fleet, allowedPlantIds=[site.battery.plant.id])
            partner = await stack.enter_async_context(connected(fleet, slug, created))
            await stack.enter_async_context(site.ledger.kept(partner))
            busy.append(asyncio.create_task(site.keep_busy(partner, stop)))
        # Later, the broker may not be able to ask the process that admits the meters, and allows their first messages.
        await asyncio.gather(*(site.started.wait() for site in sites))
        for name in names:
            await asyncio.sleep(0.5)
            await end(name)
            newest = sites[0].orders[-1:]
            await sites[0].ledger.ended(newest, 60)
        await asyncio.sleep(1)
        stop.set()
        await asyncio.gather(*busy)
        for site in sites:
            await site.ledger.ended(site.orders, 90)
            if site.commands:
                await site.battery.in_state(site.commands[-1], "APPLIED", seconds=90)
    await asyncio.to_thread(crowd.wait_until_all_answer)
    for site in sites:
        compare(site)
        await asyncio.to_thread(wait_for, partial(counts, fleet, site), 60)
    alerts = [alert["message"].partition(":")[0] for alert in fleet.call("GET", "/alerts")["data"]]
    assert sorted(alerts) == [f"Hot {number}" for number in range(RULES)], "one alert a rule, whichever plant it is"
    await asyncio.to_thread(wait_for, lambda: len(notified(fleet, email)) == RULES, 150)
    mails = delivered(fleet.stack.home, email)
    # A mail whose process is killed before it has written down that it is sent is sent again: that, and no more.
    assert RULES <= len(mails) <= RULES + sum(name.startswith("jobs") for name in names)
    left = "SELECT count(*) FROM partner_event WHERE organization_id = %s"
    await asyncio.to_thread(wait_for, lambda: fleet.sql(left, [fleet.organization_id]) == [(0,)], 60)
    return {
        "orders": sum(len(site.orders) for site in sites),
        "commands": sum(len(site.commands) for site in sites),
        "points": sum(site.points for site in sites),
        "unanswered": sum(site.unanswered for site in sites),
        "mails": len(mails),
    }


async def busy_under_kills(crowd: Several, fleet: Fleet, folder: Path, names: list[str]) -> dict[str, int]:
    """Kill these parts one after the other."""

    async def kill(name: str) -> None:
        crowd.kill(name)

    return await busy_while(crowd, fleet, folder, names, kill, crowd.base_urls)


async def busy_during_a_rolling_restart(
    crowd: Several, fleet: Fleet, folder: Path, names: list[str], figure: Figure
) -> dict[str, int]:
    """Replace these parts one after the other, with everything through the balancer, where every request must succeed."""
    with balanced(crowd.base_urls, folder) as url:
        stop = Event()
        with ThreadPoolExecutor(READERS) as pool:
            reads = [pool.submit(keep_reading, url, fleet.headers, stop) for _ in range(READERS)]
            try:
                done = await busy_while(crowd, fleet, folder, names, crowd.replace, [url])
            finally:
                stop.set()
            done["reads"] = sum(one.result() for one in reads)
    figure(f"failed requests during a restart of {len(names)} processes", done["unanswered"], "", 0)
    assert done["unanswered"] == 0
    return done


def keep_reading(url: str, headers: Mapping[str, str], stop: Event) -> int:
    """Read plants on one connection after the other. Returns how often; each response must be a success."""
    number = 0
    while not stop.is_set():
        with client_of(url, headers) as client:
            for _ in range(20):
                client.get("/plants").raise_for_status()
                number += 1
    return number


def compare(site: Site) -> None:
    """Every order and every command was obeyed once and has one history; partners received each step once."""
    obeyed = [command.command_id for command in site.battery.obeyed]
    assert len(obeyed) == len(set(obeyed)), "obeyed twice"
    powers = [command.power_kw for command in site.battery.obeyed if command.type == "SITE_SETPOINT"]
    assert powers == [number % 50 for number in range(len(site.orders))], "each order once, in order"
    assert set(site.commands) <= set(obeyed)
    assert set(site.ledger.acks) == set(site.orders)
    assert {tuple(acks) for acks in site.ledger.acks.values()} == {("ACCEPTED", "APPLIED")}
    histories = site.battery.histories()
    assert set(obeyed) == set(histories)
    assert {tuple(states) for states in histories.values()} == {("PENDING", "SENT", "RECEIVED", "APPLIED")}


def counts(fleet: Fleet, site: Site) -> bool:
    """Whether the buckets hold every point, each once."""
    span = "from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&bucket=1%20hour&metric=heat"
    found = sum(point["metadata"]["count"] for point in fleet.call("GET", f"/telemetry?plantId={site.meter.id}&{span}"))
    assert found <= site.points
    return bool(found == site.points)


def notified(fleet: Fleet, email: str) -> list[tuple[Any, ...]]:
    """The stored deliveries of alerts by mail to a user that are sent."""
    return fleet.sql(
        "SELECT n.id FROM notification_log n JOIN user_account u ON u.id = n.user_id"
        " WHERE u.email = %s AND n.channel = 'EMAIL' AND n.status = 'SENT'",
        [email],
    )


async def test_two_of_each_do_nothing_twice(crowd: Several, fleet: Fleet, tmp_path: Path) -> None:
    print(await busy_under_kills(crowd, fleet, tmp_path, ["gateway-b", "ingest-2", "serve-b"]))


async def test_a_rolling_restart_fails_no_request(crowd: Several, fleet: Fleet, tmp_path: Path, figure: Figure) -> None:
    print(await busy_during_a_rolling_restart(crowd, fleet, tmp_path, ["serve", "serve-b"], figure))


async def test_what_one_ends_has_ended_in_the_other(crowd: Several, fleet: Fleet) -> None:
    for kind in ENDS:
        await asyncio.to_thread(ended, crowd, fleet, kind, 3)


def test_a_frozen_redis_is_logged_and_stops_no_request(crowd: Several, fleet: Fleet) -> None:
    def cache_of(url: str) -> tuple[str, str]:
        found = httpx.get(f"{url}/api/v1/health/ready", timeout=20).raise_for_status().json()
        return found["status"], found["checks"]["cache"]

    crowd.redis.signal(signal.SIGSTOP)
    try:
        for url in crowd.base_urls:
            assert cache_of(url) == ("healthy", "unavailable")
            with client_of(url, fleet.headers) as client:
                assert client.get("/plants/certificate-stats").status_code == 200
    finally:
        crowd.redis.signal(signal.SIGCONT)
    for url in crowd.base_urls:
        wait_for(lambda url=url: cache_of(url) == ("healthy", "ok"))  # type: ignore[misc]


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_a_rolling_restart_of_everything_fails_no_request(
    crowd: Several, fleet: Fleet, tmp_path: Path, figure: Figure
) -> None:
    print(await busy_during_a_rolling_restart(crowd, fleet, tmp_path, ["serve", *PARTS] * 2, figure))


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_three_kills_of_each_of_several_do_nothing_twice(crowd: Several, fleet: Fleet, tmp_path: Path) -> None:
    print(await busy_under_kills(crowd, fleet, tmp_path, list(PARTS) * 3))


@pytest.mark.faults
@pytest.mark.timeout(600)
async def test_others_take_over_from_a_gateway_that_hangs(crowd: Several, fleet: Fleet, tmp_path: Path) -> None:
    """One of the two serves the organisation. What waits for it is no silence of the partner."""
    slug, battery = await asyncio.to_thread(start_trading, fleet), Battery(fleet, add_template(fleet), tmp_path)
    created, ledger, orders = await asyncio.to_thread(make_key, fleet), AckLedger(), list[str]()
    async with battery.connected(), connected(fleet, slug, created) as partner, ledger.kept(partner):
        fallback = {"mode": "STANDBY", "afterSeconds": 10}
        orders.append(await partner.send(CommandKind.FALLBACK, battery.plant.id, fallback=fallback))
        await ledger.ended(orders, 60)
        for name in ("gateway", "gateway-b"):
            with crowd.hung(name):
                for _ in range(60):
                    orders.append(await partner.send(CommandKind.SETPOINT, battery.plant.id, powerKw=len(orders) % 50))
                    await asyncio.sleep(1)
                await ledger.ended(orders, 30)
            await asyncio.sleep(3)
    assert [command.type for command in battery.obeyed] == ["CONFIG", *["SITE_SETPOINT"] * (len(orders) - 1)]


@pytest.mark.faults
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", ["session", "key", "plant"])
async def test_two_hundred_ends_leave_no_survivor(crowd: Several, fleet: Fleet, figure: Figure, kind: str) -> None:
    longest = await asyncio.to_thread(ended, crowd, fleet, kind, 200)
    figure(f"an ended {kind} is refused by another process, the slowest of 200", longest, "ms", GOAL_MILLISECONDS)


def end_session(fleet: Fleet, first: str, second: str) -> float:
    """Logs out at the first; milliseconds that the second takes to refuse the next call."""
    headers = log_in(fleet, first)
    with client_of(first, headers) as here, client_of(second, headers) as there:
        for client in (here, there):
            assert client.get("/auth/me").status_code == 200
        assert here.post("/auth/logout").status_code == 200
        return refused(lambda: there.get("/auth/me"), 401)


def end_key(fleet: Fleet, first: str, second: str) -> float:
    """The same for a key that is revoked."""
    created = make_key(fleet, ["plants:read"])
    key = {"x-api-key": created["key"]}
    with client_of(first, fleet.headers) as admin, client_of(first, key) as here, client_of(second, key) as there:
        for client in (here, there):
            assert client.get("/plants").status_code == 200
        assert admin.delete(f"/partner/api-keys/{created['apiKey']['id']}").is_success
        return refused(lambda: there.get("/plants"), 401)


def end_plant(fleet: Fleet, first: str, second: str) -> float:
    """The same for a plant that is revoked and would fetch another token."""
    plant = fleet.plant("TOKEN")
    with client_of(first, fleet.headers) as here, client_of(second, fleet.headers) as there:
        assert there.post(f"/plants/{plant.id}/mqtt-token").is_success
        assert here.post(f"/plants/{plant.id}/revoke").is_success
        return refused(lambda: there.post(f"/plants/{plant.id}/mqtt-token"), 400)


ENDS = {"session": end_session, "key": end_key, "plant": end_plant}


def ended(crowd: Several, fleet: Fleet, kind: str, tries: int) -> float:
    """End something at one process and ask the other at once, in turn. Returns the longest refusal in milliseconds."""
    longest = 0.0
    for number in range(tries):
        first, second = crowd.base_urls if number % 2 == 0 else crowd.base_urls[::-1]
        longest = max(longest, ENDS[kind](fleet, first, second))
    return longest
