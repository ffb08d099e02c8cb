"""`python -m bench.commands`: duration of a command from the REST call to the plant and back, on a private service.

Plants are the project's own clients in this process and execute commands immediately. All times come from one clock: the
start of the call, the plant's handler, and the commits of the database.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import httpx
import psutil
import psycopg
import uvloop

from bench.meter import cpu_of, cpu_of_stack
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack, running_stack
from gridfleet.sdk.plant import Command, Package, PlantClient

__all__ = ["Site", "main", "prepare_site"]

_BATTERY: Final = "00000000-0000-7000-8000-000000000005"
_END_SECONDS: Final = 60.0


class Site:
    """A connected plant with a battery. `reached` holds the time of the handler call for each command."""

    def __init__(self, http: httpx.AsyncClient, plant_id: str, package: dict[str, Any], folder: Path) -> None:
        self._http = http
        self._path = f"/plants/{plant_id}/sub-devices/BAT1/commands"
        self.reached: dict[str, float] = {}
        self.called: dict[str, tuple[float, float]] = {}
        self.client = PlantClient(
            Package.parse(json.dumps(package)), queue_path=folder / f"{plant_id}.queue", on_command=self._obey
        )

    async def _obey(self, command: Command) -> None:
        self.reached[command.command_id] = time.time()

    async def order(self) -> str:
        """Issue a command and return its id."""
        began = time.time()
        answer = await self._http.post(self._path, json={"action": "set_power", "params": {"power_kw": 1.5}})
        answer.raise_for_status()
        command_id: str = answer.json()["commandId"]
        self.called[command_id] = (began, time.time())
        return command_id


def main() -> None:
    """Run the benchmark and print the results."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--plants", type=int, default=20)
    arguments.add_argument("--single", type=int, default=300, help="commands sent one after the other")
    arguments.add_argument("--burst", type=int, default=50, help="commands to each plant at once")
    chosen = arguments.parse_args()
    with running_stack() as stack:
        stack.start_api()
        for role in ("ingest", "gateway"):
            stack.start(role)
        uvloop.run(_measure(stack, chosen.plants, chosen.single, chosen.burst))


async def _measure(stack: Stack, plants: int, single: int, burst: int) -> None:
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as opened:
            http = await opened.enter_async_context(httpx.AsyncClient(base_url=f"{stack.api_url}/api/v1", timeout=30))
            await _log_in(http)
            sites = [await prepare_site(http, Path(folder)) for _ in range(plants)]
            for site in sites:
                await opened.enter_async_context(site.client)
                await site.client.wait_connected(20)

            for number in range(single):
                await sites[number % plants].order()
                await asyncio.sleep(0.05)
            await _all_ended(stack, single)
            calls = {key: times for site in sites for key, times in site.called.items()}
            reached = {key: moment for site in sites for key, moment in site.reached.items()}
            ended = _commits(stack)
            print(f"{single} commands, one at a time, to {plants} plants (ms: p50, p99)")
            _show("  REST answered", [after - before for before, after in calls.values()])
            _show("  plant obeys", [reached[key] - before for key, (before, _) in calls.items()])
            _show("  APPLIED", [ended[key] - before for key, (before, _) in calls.items()])

            before, own = _cpu(stack), psutil.Process().cpu_times()
            began = time.time()
            await asyncio.gather(*(site.order() for site in sites for _ in range(burst)))
            answered = time.time() - began
            await _all_ended(stack, single + plants * burst)
            last = max(_commits(stack).values())
            count = plants * burst
            print(f"{count} commands at once: answered after {answered:.2f} s, all APPLIED after {last - began:.2f} s")
            print(f"  {count / (last - began):.0f} commands/s; CPU a command:")
            for name, seconds in _cpu(stack).items():
                print(f"    {name:<10}{(seconds - before[name]) / count * 1000:6.2f} ms")
            after = psutil.Process().cpu_times()
            print(f"    {'this':<10}{(after.user + after.system - own.user - own.system) / count * 1000:6.2f} ms")
            repeated = sum(site.client.counters.commands_repeated for site in sites)
            print(f"  copies that plants had already obeyed: {repeated}")


async def _log_in(http: httpx.AsyncClient) -> None:
    answer = await http.post("/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD})
    http.headers["authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
    body = {"name": "Bench", "slug": f"bench-{uuid4().hex[:8]}"}
    http.headers["x-org-id"] = (await http.post("/organizations", json=body)).raise_for_status().json()["id"]


async def prepare_site(http: httpx.AsyncClient, folder: Path) -> Site:
    """Register and provision a plant with a battery in the organisation of `http`."""
    body = {"name": "Bench", "serialNumber": uuid4().hex, "type": "GATEWAY", "authMethod": "PASSWORD"}
    plant_id = (await http.post("/plants", json=body)).raise_for_status().json()["id"]
    device = {"externalId": "BAT1", "name": "Battery", "type": "BATTERY", "templateId": _BATTERY}
    (await http.post(f"/plants/{plant_id}/sub-devices", json=device)).raise_for_status()
    package = (await http.post(f"/plants/{plant_id}/provision")).raise_for_status().json()
    return Site(http, plant_id, package, folder)


def _cpu(stack: Stack) -> dict[str, float]:
    """Return the CPU seconds so far by part of the service."""
    roles = ("serve", "gateway", "ingest")
    found = dict.fromkeys(roles, 0.0)
    for process in psutil.Process().children():
        role = next((role for role in roles if process.cmdline()[-1] == role), None)
        if role is not None:
            found[role] = cpu_of(process)
    return found | {name: read() for name, read in cpu_of_stack(stack).items()}


async def _all_ended(stack: Stack, count: int) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while len(_commits(stack)) < count:
        if time.monotonic() > deadline:
            raise BenchFailed(f"only {len(_commits(stack))} of {count} commands were applied")
        await asyncio.sleep(0.1)


def _commits(stack: Stack) -> dict[str, float]:
    """Return the commit time of the end of each APPLIED command, in epoch seconds."""
    with psycopg.connect(stack.database_url) as db:
        rows = db.execute(
            "SELECT id::text, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 FROM plant_command"
            " WHERE status = 'APPLIED'"
        ).fetchall()
        wrong = db.execute("SELECT count(*) FROM plant_command WHERE status IN ('REJECTED', 'FAILED', 'EXPIRED')").fetchone()
    if wrong != (0,):
        raise BenchFailed(f"commands ended otherwise: {wrong}")
    return dict(rows)


def _show(name: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    print(f"{name:<18}{p50 * 1000:8.1f}{p99 * 1000:8.1f}")


if __name__ == "__main__":
    main()
