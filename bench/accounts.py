"""`python -m bench.accounts`: cost and timing of logins, on a private service.

Two questions. First: does the duration of a refused login reveal whether an address is known, unknown or locked? Medians over
many alternating tries. Second: does a burst of logins delay other users? Durations of small requests while fifty users log in
at once, compared with those of an idle service, and the memory that the burst uses.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import psutil

from gridfleet.domains.identity.accounts.registry import register
from gridfleet.domains.identity.bootstrap import ensure_first_super_admin
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.security.passwords import Passwords
from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.local.processes import Program, spawn, stop_process
from gridfleet.local.secrets import ensure_local_secrets

ADMIN, PASSWORD = "admin@example.com", "Correct-horse-7"
TRIES: Final = 500
BURST: Final = 50
_PORTS: Final = (28_417, 28_418)
_PROBES: Final = 2


@contextmanager
def service() -> Iterator[tuple[str, int]]:
    """Run a database and one api process. Yields the base URL and the process id."""
    with tempfile.TemporaryDirectory(prefix="gridfleet-bench-") as folder:
        home = Path(folder)
        ensure_local_secrets(home)
        postgres = EmbeddedPostgres(home)
        try:
            url = postgres.start()
            migrate(url)
            asyncio.run(people(url))
            environment = {
                "PATH": "/usr/bin:/bin",
                "GRIDFLEET_HOME": folder,
                "GRIDFLEET_DATABASE_URL": url,
                "GRIDFLEET_HTTP_PORT": str(_PORTS[0]),
                "GRIDFLEET_INTERNAL_PORT": str(_PORTS[1]),
                "GRIDFLEET_RATE_LIMITS": "off",
                "GRIDFLEET_LOG_LEVEL": "WARNING",
            }
            program = Program("serve", (sys.executable, "-m", "gridfleet", "serve"), environment, home)
            process = spawn(program, subprocess.DEVNULL)
            try:
                wait_until_alive(base := f"http://127.0.0.1:{_PORTS[0]}")
                yield base, process.pid
            finally:
                stop_process(program, process)
        finally:
            postgres.stop()


async def people(url: str) -> None:
    """Create a SuperAdmin, and as many accounts as log in at once."""
    passwords = Passwords()
    hashed = await passwords.hash(PASSWORD)
    async with open_database(url, name="bench", size=2) as database, database.transaction() as db:
        await ensure_first_super_admin(db, ADMIN, PASSWORD)
        for number in range(BURST):
            await register(db, Actor(ActorType.SYSTEM), f"user{number}@example.com", "User", hashed)
    passwords.close()


def wait_until_alive(base: str) -> None:
    """Return once the service responds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{base}/api/v1/health/live").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the service did not come up")


def login_times(base: str, tries: int) -> None:
    """Print the medians of refused logins by kind of address."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc)

    def log_in(email: str, password: str) -> tuple[float, int]:
        body = json.dumps({"email": email, "password": password})
        started = time.perf_counter()
        connection.request("POST", "/api/v1/auth/login", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return (time.perf_counter() - started) * 1000, answer.status

    for _ in range(10):
        log_in("locked@example.com", "wrong password")
    times: dict[str, list[float]] = {"known": [], "unknown": [], "locked": []}
    for number in range(tries):
        if number % 9 == 8:
            assert log_in(ADMIN, PASSWORD)[1] == 200, "or the known address would lock"
        for kind, email, status in (
            ("known", ADMIN, 401),
            ("unknown", f"nobody{number}@example.com", 401),
            ("locked", "locked@example.com", 403),
        ):
            milliseconds, answered = log_in(email, "wrong password")
            assert answered == status, (kind, answered)
            times[kind].append(milliseconds)
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    print(f"Refused logins, {tries} tries each, taken in turn")
    for kind, values in times.items():
        low, _, high = statistics.quantiles(values, n=4)
        print(f"  {kind:<8} median {medians[kind]:6.2f} ms   half of them {low:6.2f} to {high:6.2f} ms")
    print(f"  largest difference of medians {max(medians.values()) - min(medians.values()):.2f} ms (promised: under 5 ms)")


class Probes:
    """Threads that send small requests repeatedly and record the duration of each response."""

    def __init__(self, base: str, token: str) -> None:
        self._netloc = urlsplit(base).netloc
        self._headers = {"authorization": f"Bearer {token}"}
        self._stop = threading.Event()
        self.milliseconds: list[float] = []
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(_PROBES)]

    def __enter__(self) -> "Probes":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection(self._netloc)
        while not self._stop.is_set():
            for path in ("/api/v1/auth/me", "/api/v1/organizations", "/api/v1/health/live"):
                started = time.perf_counter()
                connection.request("GET", path, headers=self._headers)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                self.milliseconds.append((time.perf_counter() - started) * 1000)
            time.sleep(0.005)


def spread(milliseconds: Sequence[float]) -> str:
    """Return median, p99 and maximum as text."""
    ordered = sorted(milliseconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    median = statistics.median(ordered)
    return f"median {median:6.1f} ms   p99 {p99:6.1f} ms   longest {ordered[-1]:6.1f} ms   ({len(ordered)} requests)"


async def burst(base: str) -> None:
    """Log fifty users in at the same moment and print the results as JSON."""
    limits = httpx.Limits(max_connections=BURST)
    async with httpx.AsyncClient(base_url=base, limits=limits, timeout=120) as client:
        await asyncio.gather(*(client.get("/api/v1/health/live") for _ in range(BURST)))
        started = time.perf_counter()
        answers = await asyncio.gather(
            *(
                client.post("/api/v1/auth/login", json={"email": f"user{number}@example.com", "password": PASSWORD})
                for number in range(BURST)
            )
        )
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "succeeded": sum(answer.is_success for answer in answers)}))


def bursts(base: str, pid: int, rounds: int) -> None:
    """Print the effect of bursts on other requests, and their memory use."""
    opened = httpx.post(f"{base}/api/v1/auth/login", json={"email": ADMIN, "password": PASSWORD})
    token = str(opened.json()["access_token"])
    process = psutil.Process(pid)
    with Probes(base, token) as quiet:
        time.sleep(3)
    before = process.memory_info().rss
    highest, lasted = before, []
    with Probes(base, token) as busy:
        for _ in range(rounds):
            child = subprocess.Popen(
                [sys.executable, "-m", "bench.accounts", "--burst", base], stdout=subprocess.PIPE, text=True
            )
            while child.poll() is None:
                highest = max(highest, process.memory_info().rss)
                time.sleep(0.005)
            outcome = json.loads(child.communicate()[0])
            assert outcome["succeeded"] == BURST, outcome
            lasted.append(outcome["seconds"])
    print(f"Small requests by two others, {rounds} bursts of {BURST} logins at once")
    print(f"  quiet   {spread(quiet.milliseconds)}")
    print(f"  bursts  {spread(busy.milliseconds)} (promised: p99 under 300 ms)")
    print(
        f"  a burst is over after {statistics.median(lasted):.2f} s ({BURST / statistics.median(lasted):.0f} logins a second)"
    )
    print(f"  memory  {before / 2**20:.0f} MiB before, {highest / 2**20:.0f} MiB at most")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=TRIES, help="refused logins of each kind")
    parser.add_argument("--rounds", type=int, default=5, help="bursts")
    parser.add_argument("--burst", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.burst:
        asyncio.run(burst(chosen.burst))
        return
    with service() as (base, pid):
        login_times(base, chosen.tries)
        bursts(base, pid, chosen.rounds)


if __name__ == "__main__":
    main()
