"""Settings with free ports, so that several test runs and a real service can share a machine."""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO, Any

from gridfleet.kernel.settings import Settings

PORT_SETTINGS = (
    "http_port",
    "internal_port",
    "amqp_port",
    "amqps_port",
    "mqtt_port",
    "mqtts_port",
    "management_port",
    "broker_metrics_port",
    "broker_dist_port",
    "epmd_port",
)


_MOST_WORKERS = 4
_PORTS_A_WORKER = 20_000 // _MOST_WORKERS
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _MOST_WORKERS


_taken: list[IO[str]] = []


def free_ports(count: int) -> list[int]:
    """Return ports without a listener, below the range of ports for outgoing connections.

    Each worker of a test run has its own range, so that two workers cannot find the same port before it is bound. A lock on a
    file, held until this process ends, keeps other test runs on this machine from the port.
    """
    found: list[int] = []
    first = 12_000 + _worker * _PORTS_A_WORKER
    candidates = random.sample(range(first, first + _PORTS_A_WORKER), 2_000)
    while len(found) < count:
        port = candidates.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if _lock(port):
            found.append(port)
    return found


def _lock(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / "gridfleet-test-ports"
    folder.mkdir(exist_ok=True)
    file = (folder / str(port)).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _taken.append(file)
    return True


def free_port_settings() -> dict[str, int]:
    """Return every port setting of the service with a free port. Only `serve` serves its metrics."""
    return {**dict(zip(PORT_SETTINGS, free_ports(len(PORT_SETTINGS)), strict=True)), "metrics_port": 0}


def free_port_range(count: int) -> int:
    """Return the first of `count` successive ports without a listener."""
    while True:
        [first] = free_ports(1)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            if all(_lock(port) for port in range(first + 1, first + count)):
                return first


def settings_at(home: Path, **changes: Any) -> Settings:
    """Return settings of a service below `home` on free ports."""
    return Settings(**{"home": home, **free_port_settings(), **changes})
