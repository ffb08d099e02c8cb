"""`python -m bench.memory`: memory of all processes of an idle service, as `gridfleet up` starts it.

The figure is the sum of the proportional set sizes (PSS): a page that several processes share, such as one of PostgreSQL's
buffers, counts once. Needs Linux, and the right to read `/proc/PID/smaps_rollup` of every process.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from bench.measures import Measure, folder_of, options, report
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, free_ports
from gridfleet.local.processes import Program, spawn, stop_process

__all__ = ["main", "measures_of", "proportional_bytes"]

_START_SECONDS: Final = 180
_MIB: Final = 1 << 20


def main() -> None:
    """Measure, print and write the result `memory`."""
    parser = options("memory", __doc__)
    parser.add_argument("--idle-seconds", type=float, help="how long the service is idle first: 60; if quick 5")
    chosen = parser.parse_args()
    idle = chosen.idle_seconds if chosen.idle_seconds is not None else 5.0 if chosen.quick else 60.0
    with _service() as parts:
        time.sleep(idle)
        bytes_of = {name: sum(map(proportional_bytes, (one, *one.children(recursive=True)))) for name, one in parts.items()}
    # The processes of all parts are children of the supervisor.
    bytes_of["up"] -= sum(size for name, size in bytes_of.items() if name != "up")
    report("memory", measures_of(bytes_of), folder_of(chosen))


def measures_of(bytes_of: Mapping[str, int]) -> dict[str, Measure]:
    """Return the memory of each part, and their sum."""
    parts = {name.replace("-", "_"): Measure(size / _MIB, "MiB", None, "lower") for name, size in bytes_of.items()}
    return parts | {"all_processes": Measure(sum(bytes_of.values()) / _MIB, "MiB", 350.0, "lower")}


@contextmanager
def _service() -> Iterator[dict[str, psutil.Process]]:
    """Run `gridfleet up` in a temporary folder. Yields the main process of each part, and the supervisor as `up`."""
    with TemporaryDirectory(prefix="gridfleet-bench-") as name:
        home = Path(name)
        home.chmod(0o755)  # PostgreSQL runs as another user if this process is root's
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GRIDFLEET_")} | {
            **{f"GRIDFLEET_{port.upper()}": str(number) for port, number in free_ports().items()},
            "GRIDFLEET_HOME": name,
            "GRIDFLEET_ADMIN_EMAIL": ADMIN_EMAIL,
            "GRIDFLEET_ADMIN_PASSWORD": ADMIN_PASSWORD,
        }
        program = Program("up", (sys.executable, "-m", "gridfleet", "up"), environment, home, stop_seconds=60.0)
        with (home / "up.log").open("wb") as output:
            up = spawn(program, output)
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not (run_file := home / "run.json").exists():
                if up.poll() is not None or time.monotonic() > deadline:
                    raise BenchFailed(f"the service did not start: {(home / 'up.log').read_text(errors='replace')[-2000:]}")
                time.sleep(0.5)
            pids = json.loads(run_file.read_text())["processes"]
            yield {"up": psutil.Process(up.pid)} | {part: psutil.Process(pid) for part, pid in pids.items()}
        finally:
            stop_process(program, up)


def proportional_bytes(process: psutil.Process) -> int:
    """Return the proportional set size of a process, 0 if it has ended."""
    # A process that has just ended has no memory.
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
