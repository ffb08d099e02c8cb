"""`python -m bench.gateway`: one gateway process, many partners' vhosts, and events to publish to them.

Every partner has its own organisation, plant, key and vhost. Events are queued in batches, as by the ingest, first at a steady
rate and then all at once. An event counts when the broker has confirmed it and its row is deleted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import httpx
import psutil
import psycopg
import uvloop

from bench.measures import Measure, folder_of, options, report
from bench.meter import cpu_of, cpu_of_stack
from bench.stack import BenchFailed, Stack, running_stack
from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.partner_events.telemetry import telemetry_events
from gridfleet.domains.partners.models import vhost_of
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost, inbound_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_routes import EventKind, event_queue

__all__ = ["main"]

_VALUES: Final = {f"metric_{number}": number * 1.5 for number in range(20)}
_BATCH_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 5.0


class Partner:
    """An organisation with one plant and one key."""

    def __init__(self, number: int) -> None:
        self.organization_id, self.plant_id, self.key_id = new_id(), new_id(), new_id()
        self.slug = f"bench-{number}"
        self.vhost = vhost_of(self.key_id)


def main() -> None:
    """Measure, print and write the result `gateway`."""
    arguments = options("gateway", __doc__)
    arguments.add_argument("--vhosts", type=int, help="200; if quick 20")
    arguments.add_argument("--rate", type=int, default=1_000, help="events a second")
    arguments.add_argument("--seconds", type=int, help="20; if quick 5")
    arguments.add_argument("--burst", type=int, help="events queued at once: 20,000; if quick 5,000")
    chosen = arguments.parse_args()
    vhosts, seconds, burst = (20, 5, 5_000) if chosen.quick else (200, 20, 20_000)
    with running_stack() as stack:
        measures = uvloop.run(
            _measure(stack, chosen.vhosts or vhosts, chosen.rate, chosen.seconds or seconds, chosen.burst or burst)
        )
    report("gateway", measures, folder_of(chosen))


async def _measure(stack: Stack, vhosts: int, rate: int, seconds: int, burst: int) -> dict[str, Measure]:
    partners = [Partner(number) for number in range(vhosts)]
    _store(stack, partners)
    began = time.monotonic()
    await _make_vhosts(stack, partners)
    making = time.monotonic() - began
    gateway = stack.start("gateway")
    began = time.monotonic()
    await _wait_until_served(stack, partners)
    serving, memory = time.monotonic() - began, gateway.memory_info().rss / 2**20
    idle = await _cpu_during(stack, gateway, asyncio.sleep(_IDLE_SECONDS), _IDLE_SECONDS)
    async with open_database(stack.database_url, name="bench", size=2) as database:
        sent = rate * seconds
        left = 0

        async def steady_load() -> None:
            nonlocal left
            await _steady(database, partners, rate, seconds)
            left = _waiting(stack)
            await _until(lambda: _waiting(stack) == 0, "events waiting")

        # With the CPU of the events that still wait at the end: a gateway that cannot follow would seem to use less.
        steady = await _cpu_during(stack, gateway, steady_load(), seconds)
        began = time.monotonic()
        await _queue(database, list(_events(partners, burst)))
        await _until(lambda: _waiting(stack) == 0, "events waiting")
        took = time.monotonic() - began
    found = _delivered(stack, partners)
    if found != sent + burst:
        raise BenchFailed(f"{found} of {sent + burst} events are in the partners' queues")
    return {
        "vhosts": Measure(vhosts, "vhosts", None, "higher"),
        "making_vhosts": Measure(making, "s", None, "lower"),
        "serving_vhosts_after": Measure(serving, "s", None, "lower"),
        "memory": Measure(memory, "MiB", None, "lower"),
        **{f"idle_cpu_{part}": Measure(share * 100, "% of a core", None, "lower") for part, share in idle.items()},
        **{
            f"steady_cpu_{part}": Measure(share * 100, "% of a core", 20.0 if part == "gateway" else None, "lower")
            for part, share in steady.items()
        },
        "steady_behind": Measure(left / rate, "s", None, "lower"),
        "burst": Measure(burst / took, "events/s", 5_000, "higher"),
    }


def _store(stack: Stack, partners: Sequence[Partner]) -> None:
    user = new_id()
    with psycopg.connect(stack.database_url) as db:
        db.execute(
            "INSERT INTO user_account (id, email, name, password_hash) VALUES (%s, 'bench@example.com', 'Bench', '!')", (user,)
        )
        cursor = db.cursor()
        cursor.executemany(
            "INSERT INTO organization (id, name, slug) VALUES (%s, 'Bench', %s)",
            [(one.organization_id, one.slug) for one in partners],
        )
        cursor.executemany(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
            " VALUES (%s, %s, 'Bench', 'B', 'GATEWAY', 'PASSWORD', 'ACTIVE')",
            [(one.plant_id, one.organization_id) for one in partners],
        )
        cursor.executemany(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost, amqp_slug,"
            " created_by, activated_at) VALUES (%s, %s, 'Bench', 'b', '', %s, '{vcp:connect}', %s, %s, %s, now())",
            [(one.key_id, one.organization_id, one.key_id.bytes, one.vhost, one.slug, user) for one in partners],
        )
        cursor.executemany(
            "INSERT INTO partner_queues VALUES (%s, %s, true)", [(one.organization_id, one.slug) for one in partners]
        )


async def _make_vhosts(stack: Stack, partners: Sequence[Partner]) -> None:
    turns = asyncio.Semaphore(4)
    async with open_management(stack.broker_management_url) as management:

        async def make(one: Partner) -> None:
            async with turns:
                await ensure_partner_vhost(management, stack.broker_url, one.vhost, PartnerQueues(one.slug, one.slug))

        await asyncio.gather(*(make(one) for one in partners))


async def _steady(database: Database, partners: Sequence[Partner], rate: int, seconds: int) -> None:
    """Queue a batch every tenth of a second."""
    events = _events(partners, rate * seconds)
    began = time.monotonic()
    for number in range(round(seconds / _BATCH_SECONDS)):
        await asyncio.sleep(max(0.0, began + number * _BATCH_SECONDS - time.monotonic()))
        await _queue(database, list(islice(events, round(rate * _BATCH_SECONDS))))


def _events(partners: Sequence[Partner], count: int) -> Iterator[NewEvent]:
    now = datetime.now(UTC)
    for number in range(count):
        one = partners[number % len(partners)]
        yield from telemetry_events(one.organization_id, one.plant_id, str(number), now, {(None, now): _VALUES})


async def _queue(database: Database, events: Sequence[NewEvent]) -> None:
    async with database.transaction() as db:
        await queue_events(db, events)


async def _cpu_during(stack: Stack, gateway: psutil.Process, work: Awaitable[None], seconds: float) -> dict[str, float]:
    """Await the work of `seconds`. Returns the CPU time that each part used for it, in shares of one core."""
    before = _cpu(stack, gateway)
    await work
    return {part: (after - before[part]) / seconds for part, after in _cpu(stack, gateway).items()}


def _cpu(stack: Stack, gateway: psutil.Process) -> dict[str, float]:
    return {"gateway": cpu_of(gateway)} | {name: read() for name, read in cpu_of_stack(stack).items()}


def _waiting(stack: Stack) -> int:
    with psycopg.connect(stack.database_url) as db:
        row = db.execute("SELECT count(*) FROM partner_event").fetchone()
    return int(row[0]) if row else 0


async def _wait_until_served(stack: Stack, partners: Sequence[Partner]) -> None:
    """Return once the commands of every partner have a consumer."""
    deadline = time.monotonic() + _MOST_SECONDS
    for one in partners:
        async with open_channel(stack.broker_url, one.vhost) as channel:
            while not (await channel.queue_declare(inbound_queue(one.slug), passive=True)).consumer_count:
                if time.monotonic() > deadline:
                    raise BenchFailed(f"vhosts without a consumer after {_MOST_SECONDS:.0f} s")
                await asyncio.sleep(0.1)


def _delivered(stack: Stack, partners: Sequence[Partner]) -> int:
    """Return the number of events in the partners' queues."""
    answer = httpx.get(
        f"{stack.broker_management_url}/api/queues?disable_stats=true&enable_queue_totals=true", trust_env=False, timeout=60
    )
    ours = {(one.vhost, event_queue(one.slug, EventKind.TELEMETRY)) for one in partners}
    queues = answer.raise_for_status().json()
    return sum(queue["messages"] for queue in queues if (queue["vhost"], queue["name"]) in ours)


async def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _MOST_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise BenchFailed(f"{what} after {_MOST_SECONDS:.0f} s")
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    main()
