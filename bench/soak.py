"""`python -m bench.soak`: a working fleet for a quarter of an hour. Does memory grow, does anything fail?

Every plant is connected over MQTT and sends a signed snapshot every ten seconds. Some plants are the project's own clients,
which execute commands. Users log in, read data and log out. Afterwards every sent value must be stored, no response, log line
or connection may have failed, and no process of the service may have grown faster than the limit.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import linear_regression, mean
from tempfile import TemporaryDirectory
from typing import Any, Final, LiteralString

import httpx
import psutil
import psycopg
import uvloop
from rich.console import Console
from rich.table import Table

from bench.client import Client, percentile
from bench.commands import Site, prepare_site
from bench.fleet import Fleet, register_fleet
from bench.load import POINTS_PER_SNAPSHOT, Ledger, make_load
from bench.meter import verify
from bench.publisher import Publishers
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack, running_stack
from gridfleet.kernel.db import open_database

__all__ = ["main"]

_INTERVAL_SECONDS: Final = 10.0
_SAMPLE_SECONDS: Final = 5.0
_VISIT_SECONDS: Final = 60.0
_LAST_SECONDS: Final = 60.0
_ROLES: Final = ("serve", "ingest", "gateway", "jobs")
_MIB: Final = 1 << 20


@dataclass(slots=True)
class Sample:
    """Allocated memory of each process in bytes, `minutes` after the start."""

    minutes: float
    memory: dict[str, int]


@dataclass(slots=True)
class Soak:
    """Observations during the run."""

    ledger: Ledger = field(default_factory=Ledger)
    messages: int = 0
    bad_signatures: int = 0
    commands: int = 0
    answers: list[float] = field(default_factory=list)
    visits: int = 0
    samples: list[Sample] = field(default_factory=list)


def main() -> None:
    """Run the soak test. Exit code 1 if something failed or grew."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--plants", type=int, default=1_000)
    parser.add_argument("--sites", type=int, default=20, help="plants beside them that obey commands")
    parser.add_argument("--visitors", type=int, default=10, help="people, each with some calls a second")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--warm-up", type=float, default=5.0, help="minutes whose growth does not count")
    parser.add_argument("--limit", type=float, default=1.0, help="growth that is a failure, %% a minute")
    chosen = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    try:
        uvloop.run(_soak(chosen, say))
    except BenchFailed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        raise SystemExit(1) from None


async def _soak(chosen: argparse.Namespace, say: Callable[[str], None]) -> None:
    say("starting PostgreSQL and RabbitMQ")
    with running_stack(log_format="json") as stack, TemporaryDirectory() as folder:
        async with AsyncExitStack() as opened:
            database = await opened.enter_async_context(open_database(stack.database_url, name="gridfleet-bench", size=2))
            fleet = await register_fleet(database, stack.keyring, chosen.plants)
            stack.start_api()
            watched = {role: [stack.start(role)] for role in _ROLES if role != "serve"}
            watched["serve"] = [process for process in psutil.Process().children() if process.cmdline()[-1] == "serve"]
            watched |= {"broker": [stack.broker_process()], "postgres": [stack.postgres_process()]}
            http = await opened.enter_async_context(httpx.AsyncClient(base_url=f"{stack.api_url}/api/v1", timeout=30))
            http.headers.update({"authorization": f"Bearer {await _log_in(http)}", "x-org-id": str(fleet.organization_id)})
            rule = {"name": "Soak", "metric": "device-1.signal_00", "condition": "GT", "threshold": 990}
            (await http.post("/alert-rules", json=rule)).raise_for_status()
            sites = [await prepare_site(http, Path(folder)) for _ in range(chosen.sites)]
            for site in sites:
                await opened.enter_async_context(site.client)
                await site.client.wait_connected(20)
            say(f"logging {chosen.plants} plants in")
            publishers = await Publishers.connect(fleet.plants, stack.settings.mqtt_port)
            say(f"{chosen.minutes:g} minutes at work")
            soak = await _work(stack, fleet, publishers, sites, http, watched, chosen)
            say("waiting until everything is stored")
            await asyncio.to_thread(stack.wait_until_empty, _LAST_SECONDS)
            await _commands_ended(stack, soak.commands)
            publishers.close()
        verify(stack.database_url, soak.ledger)
        _check_refusals(stack, soak)
        _check_logs(stack.settings.home / "logs")
    _show(soak, chosen)


async def _work(
    stack: Stack,
    fleet: Fleet,
    publishers: Publishers,
    sites: Sequence[Site],
    http: httpx.AsyncClient,
    watched: dict[str, list[psutil.Process]],
    chosen: argparse.Namespace,
) -> Soak:
    soak = Soak()
    began = time.monotonic()
    end = began + chosen.minutes * 60
    async with AsyncExitStack() as ending, asyncio.TaskGroup() as tasks:
        ending.callback(_show_memory, soak, chosen)
        tasks.create_task(_send(fleet, publishers, soak, end))
        tasks.create_task(_command(sites, http, soak, end))
        tasks.create_task(_watch(watched, soak, began, end))
        for number in range(chosen.visitors):
            tasks.create_task(_visit(stack, fleet, soak, end, random.Random(number)))
    return soak


async def _send(fleet: Fleet, publishers: Publishers, soak: Soak, end: float) -> None:
    """Send a snapshot of every plant every ten seconds, spread evenly over the plants."""
    turn = 0
    while (started := time.monotonic()) < end:
        # In a thread: signing a thousand messages would block the event loop and distort the visitors' times.
        load = await asyncio.to_thread(
            make_load, fleet, POINTS_PER_SNAPSHOT, POINTS_PER_SNAPSHOT * len(fleet.plants), seed=turn, late=0
        )
        turn += 1
        soak.ledger.merge(load.ledger)
        soak.bad_signatures += load.bad_signatures
        for number, message in enumerate(load.messages):
            publishers.send(message)
            soak.messages += 1
            await asyncio.sleep(max(0.0, started + number / len(load.messages) * _INTERVAL_SECONDS - time.monotonic()))
        await asyncio.sleep(max(0.0, started + _INTERVAL_SECONDS - time.monotonic()))
    await publishers.publish([])


async def _command(sites: Sequence[Site], http: httpx.AsyncClient, soak: Soak, end: float) -> None:
    """Send a command to one site after the other, two per second."""
    expires = time.monotonic() + _VISIT_SECONDS
    for site in cycle(sites):
        if time.monotonic() >= end:
            return
        if time.monotonic() > expires:
            http.headers["authorization"] = f"Bearer {await _log_in(http)}"
            expires = time.monotonic() + _VISIT_SECONDS
        await site.order()
        soak.commands += 1
        await asyncio.sleep(0.5)


async def _visit(stack: Stack, fleet: Fleet, soak: Soak, end: float, chance: random.Random) -> None:
    """Log in, read data for a minute, log out, and repeat."""
    async with httpx.AsyncClient(base_url=f"{stack.api_url}/api/v1", timeout=30) as http:
        while time.monotonic() < end:
            token = await _log_in(http)
            until = min(end, time.monotonic() + _VISIT_SECONDS)
            async with Client(stack, token, str(fleet.organization_id)) as client:
                while time.monotonic() < until:
                    soak.answers.append(await client.time(_page(fleet, chance)))
                    await asyncio.sleep(chance.uniform(0.1, 0.3))
            (await http.post("/auth/logout", headers={"authorization": f"Bearer {token}"})).raise_for_status()
            soak.visits += 1


def _page(fleet: Fleet, chance: random.Random) -> str:
    plant = chance.choice(fleet.plants)
    now = int(time.time())
    hour = "&".join(f"{name}={time.strftime('%FT%TZ', time.gmtime(at))}" for name, at in (("from", now - 3_600), ("to", now)))
    signal = f"{plant.device_ids[0]}.signal_00"
    paths = (
        f"/plants?page={chance.randint(1, 10)}",
        f"/plants/{plant.id}",
        f"/plants/{plant.id}/sub-devices",
        f"/plants/{plant.id}/energy/today",
        f"/telemetry/{plant.id}/latest",
        f"/telemetry?plantId={plant.id}&metric={signal}&{hour}",
        f"/telemetry?plantId={plant.id}&metric={signal}&bucket=1 minute&{hour}".replace(" ", "%20"),
        "/alerts?status=ACTIVE",
        "/alert-rules",
        "/organizations",
        "/auth/me",
        "/health/ready",
    )
    return f"/api/v1{chance.choice(paths)}"


async def _watch(watched: dict[str, list[psutil.Process]], soak: Soak, began: float, end: float) -> None:
    while (now := time.monotonic()) < end:
        memory = {name: sum(map(_own_memory, processes)) for name, processes in watched.items()}
        soak.samples.append(Sample((now - began) / 60, memory))
        await asyncio.sleep(_SAMPLE_SECONDS)


def _own_memory(process: psutil.Process) -> int:
    """Return the bytes of memory that the process and its children (such as PostgreSQL's backends) have allocated.

    Files and shared memory are excluded: the database's buffers have a fixed size and fill only gradually.
    """
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            status = Path(f"/proc/{one.pid}/status").read_text()
            total += int(status.partition("RssAnon:")[2].split()[0]) * 1024
        except (FileNotFoundError, ProcessLookupError, IndexError):  # the status of an ended process has no memory
            if one == process:
                raise BenchFailed(f"{process} has died") from None
    return total


async def _log_in(http: httpx.AsyncClient) -> str:
    answer = await http.post("/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD})
    token: str = answer.raise_for_status().json()["access_token"]
    return token


def _counts(db: psycopg.Connection[Any], query: LiteralString) -> dict[str, int]:
    """Return the rows of a query for a value and a number."""
    return dict(db.execute(query).fetchall())


async def _commands_ended(stack: Stack, count: int) -> None:
    deadline = time.monotonic() + _LAST_SECONDS
    with psycopg.connect(stack.database_url, autocommit=True) as db:
        while (states := _counts(db, "SELECT status, count(*) FROM plant_command GROUP BY 1")) != (
            {"APPLIED": count} if count else {}
        ):
            if time.monotonic() > deadline:
                raise BenchFailed(f"{count} commands were given and ended as {states}")
            await asyncio.sleep(0.5)


def _check_refusals(stack: Stack, soak: Soak) -> None:
    with psycopg.connect(stack.database_url) as db:
        found = _counts(db, "SELECT reason, count(*) FROM refused_message GROUP BY 1")
    if found != ({"SIGNATURE_INVALID": soak.bad_signatures} if soak.bad_signatures else {}):
        raise BenchFailed(f"{soak.bad_signatures} bad signatures were sent; refused: {found}")


def _check_logs(folder: Path) -> None:
    """Check that every line is a JSON event and none is an error."""
    for role in _ROLES:
        path = folder / f"{role}.log"
        for line in path.read_text().splitlines():
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:
                raise BenchFailed(f"{path.name} holds a line that is no event: {line[:500]}") from None
            if event.get("level") in ("error", "critical"):
                raise BenchFailed(f"{path.name}: {line[:2_000]}")


def _show_memory(soak: Soak, chosen: argparse.Namespace) -> None:
    table = Table("process", "MiB at first", "after warm-up", "at the end", "growth, % a minute")
    counted = [sample for sample in soak.samples if sample.minutes >= chosen.warm_up] or soak.samples[-1:]
    for name, growth in _growth(counted).items():
        sizes = [sample.memory[name] / _MIB for sample in (soak.samples[0], counted[0], counted[-1])]
        table.add_row(name, *(f"{size:.1f}" for size in sizes), f"{growth:+.2f}")
    Console(width=100).print(table)


def _growth(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the slope of each process's memory in % of the mean per minute. Empty with fewer than three samples."""
    if len(samples) < 3:
        return {}
    minutes = [sample.minutes for sample in samples]
    series = {name: [sample.memory[name] for sample in samples] for name in samples[0].memory}
    return {name: linear_regression(minutes, sizes).slope / mean(sizes) * 100 for name, sizes in series.items()}


def _show(soak: Soak, chosen: argparse.Namespace) -> None:
    print(
        f"{chosen.plants} plants, {soak.messages:,} messages, {soak.ledger.points:,} points, all stored;"
        f" {soak.bad_signatures} bad signatures, all refused; {soak.commands} commands, all applied"
    )
    print(
        f"{len(soak.answers):,} calls in {soak.visits} visits, none failed:"
        f" p50 {percentile(soak.answers, 0.5) * 1000:.1f} ms, p99 {percentile(soak.answers) * 1000:.1f} ms"
    )
    growth = _growth([sample for sample in soak.samples if sample.minutes >= chosen.warm_up])
    if not growth:
        raise BenchFailed("nothing is left after the warm-up")
    if grown := [name for name, percent in growth.items() if percent > chosen.limit]:
        raise BenchFailed(f"grew by more than {chosen.limit:g} % a minute: {', '.join(grown)}")


if __name__ == "__main__":
    main()
