"""`gridfleet serve` as a separate process on the test's database."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.servers.free_ports import free_ports

KEYS = "1:" + "5a" * 32


@dataclass(frozen=True)
class RunningApi:
    """The base URL and the process of a running API."""

    url: str
    process: "subprocess.Popen[bytes]"


@contextmanager
def api_process(database_url: str, home: Path, **settings: object) -> Iterator[str]:
    """Run the API until the end of the block. Yields its base URL once it responds. All these processes share KEYS."""
    with api_command(database_url, home, (), **settings) as running:
        yield running.url


@contextmanager
def api_command(database_url: str, home: Path, arguments: Sequence[str], **settings: object) -> Iterator[RunningApi]:
    """Run the API with arguments of the command until the end of the block."""
    http_port, internal_port = free_ports(2)
    chosen = {
        "home": home,
        "database_url": database_url,
        "http_port": http_port,
        "internal_port": internal_port,
        "metrics_port": 0,
        "internal_secret": "inside",
        "keys": KEYS,
        "rate_limits": "off",
        **settings,
    }
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "gridfleet", "serve", *arguments],
        env=outer | {f"GRIDFLEET_{name.upper()}": str(value) for name, value in chosen.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(home / f"serve-{http_port}.log").open("wb"),
        start_new_session=True,
    )
    scheme = "https" if "http_certificate" in settings else "http"
    base = f"{scheme}://127.0.0.1:{http_port}"
    try:
        _wait_until_alive(process, base)
        yield RunningApi(base, process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_alive(process: "subprocess.Popen[bytes]", base: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{base}/api/v1/health/live", timeout=2, verify=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"the api process did not come up (exit code {process.poll()})")
