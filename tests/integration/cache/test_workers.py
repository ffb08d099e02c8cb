"""`gridfleet serve --workers`: several processes that people take for one."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from support.servers.api_process import RunningApi, api_command
from support.servers.free_ports import free_port_range, free_ports
from support.servers.redis_server import RedisServer

LIMIT = 12


@pytest.fixture
def api(database_url: str, home: Path, running_redis: RedisServer) -> Iterator[RunningApi]:
    chosen = {"redis_url": running_redis.url, "rate_limits": "on", "login_per_address_per_minute": LIMIT}
    with api_command(database_url, home, ("--workers", "2"), **chosen) as running:
        wait_until(lambda: len(listening(running)) == 2)
        yield running


def workers(api: RunningApi) -> list[psutil.Process]:
    return psutil.Process(api.process.pid).children()


def listening(api: RunningApi) -> set[int]:
    """The workers that take people's connections."""
    port = int(api.url.rpartition(":")[2])
    found = set()
    for worker in workers(api):
        try:
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in worker.net_connections("tcp")):
                found.add(worker.pid)
        except psutil.Error:
            continue
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_redis_it_refuses(home: Path) -> None:
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
    command = [sys.executable, "-m", "gridfleet", "serve", "--workers", "2"]
    ended = subprocess.run(command, env=outer | {"GRIDFLEET_HOME": str(home)}, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert b"GRIDFLEET_REDIS_URL" in ended.stderr


def test_they_count_together_replace_each_other_and_stop_together(api: RunningApi) -> None:
    wrong = {"email": "nobody@example.com", "password": "Mistaken-horse-7"}
    # Each over a connection of its own: the kernel spreads them over the workers.
    statuses = [httpx.post(f"{api.url}/api/v1/auth/login", json=wrong, timeout=20).status_code for _ in range(LIMIT + 8)]
    assert statuses.count(429) == 8
    assert statuses[LIMIT:] == [429] * 8

    killed = workers(api)[0]
    killed.kill()
    killed.wait(60)  # until then its socket may still take connections
    assert httpx.get(f"{api.url}/api/v1/health/live", timeout=20).status_code == 200
    wait_until(lambda: len(listening(api)) == 2)

    running = workers(api)
    api.process.terminate()
    assert api.process.wait(30) == 0
    assert psutil.wait_procs(running, timeout=10)[1] == []


def test_each_worker_serves_its_own_metrics(database_url: str, home: Path, running_redis: RedisServer) -> None:
    first, [internal] = free_port_range(2), free_ports(1)
    chosen = {"redis_url": running_redis.url, "metrics_port": first, "internal_port": internal}
    with api_command(database_url, home, ("--workers", "2"), **chosen) as running:
        wait_until(lambda: len(listening(running)) == 2)
        wait_until(lambda: all('gridfleet_processes{process="serve"} 1.0' in scraped(first + n) for n in range(2)))
        shared = scraped(internal)
    assert "gridfleet_database_up 1.0" in shared
    assert "gridfleet_processes" not in shared, "each scrape would reach another worker"


def scraped(port: int) -> str:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
    except httpx.TransportError:
        return ""
