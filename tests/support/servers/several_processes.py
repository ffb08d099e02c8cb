"""A whole service with several processes of each kind: those of `gridfleet up`, and more on the same servers."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil

from gridfleet.local.processes import Program, spawn
from support.servers.free_ports import free_ports
from support.servers.redis_server import RedisServer, redis_server
from support.servers.running_stack import RunningStack
from support.servers.suspended import suspended

if TYPE_CHECKING:
    import subprocess

BESIDE = {"serve-b": "serve", "gateway-b": "gateway", "jobs-b": "jobs"}
"""Additional processes by name, with their commands."""


@dataclass
class Several:
    """Three ingest processes and two of each other kind. The second one's name ends with `-b`."""

    stack: RunningStack
    redis: RedisServer
    ports: Mapping[str, int] = field(
        default_factory=lambda: dict(zip(("http_port", "internal_port"), free_ports(2), strict=True))
    )
    _running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def base_urls(self) -> tuple[str, str]:
        """Base URLs of the two api processes."""
        return self.stack.base_url, f"http://127.0.0.1:{self.ports['http_port']}"

    def start(self, name: str) -> None:
        """Start an additional process. Call it from the main thread: the process would end with any other thread."""
        # Read once: later, the process may just have been killed.
        self._environment = self._environment or psutil.Process(self.stack.state["processes"]["gateway"]).environ()
        own = {f"GRIDFLEET_{setting.upper()}": str(port) for setting, port in self.ports.items()}
        argv = (sys.executable, "-m", "gridfleet", BESIDE[name])
        with (self.stack.home / f"{name}.log").open("ab") as output:
            program = Program(name=name, argv=argv, environment=self._environment | own, folder=self.stack.home)
            self._running[name] = spawn(program, output)

    def kill(self, name: str) -> None:
        """Kill (-9) a process. An additional process is started again at once, as by a supervisor."""
        if name not in BESIDE:
            self.stack.kill(name)
            return
        os.kill(self._running[name].pid, signal.SIGKILL)
        self._running[name].wait()
        self.start(name)

    @contextmanager
    def hung(self, name: str) -> Iterator[None]:
        """Suspend a process until the block ends."""
        # One that was killed just now may not run again yet.
        pid = self._running[name].pid if name in BESIDE else self.stack.wait_for_restart(name, 0)
        with suspended(psutil.Process(pid)):
            yield

    async def replace(self, name: str) -> None:
        """End a process with SIGTERM, and return when its successor runs and all processes respond."""
        if name in BESIDE:
            ending = self._running[name]
            ending.terminate()
            assert await asyncio.to_thread(ending.wait, 60) == 0
            self.start(name)
        else:
            pid = await asyncio.to_thread(self.stack.wait_for_restart, name, 0)
            os.kill(pid, signal.SIGTERM)
            await asyncio.to_thread(self.stack.wait_for_restart, name, pid)
        await asyncio.to_thread(self.wait_until_all_answer)

    def wait_until_all_answer(self, seconds: float = 240) -> None:
        """Return once both api processes respond."""
        deadline = time.monotonic() + seconds
        for base in self.base_urls:
            while True:
                try:
                    if httpx.get(f"{base}/api/v1/health/ready", timeout=5).is_success:
                        break
                except httpx.TransportError:
                    pass
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{base} is not ready")
                time.sleep(0.1)

    def stop(self) -> None:
        """Kill the additional processes without a clean shutdown, which they tolerate."""
        for process in self._running.values():
            process.kill()
            process.wait()


@contextmanager
def several(home: Path) -> Iterator[Several]:
    """Run all processes until the end of the block."""
    with ExitStack() as stack:
        folder = home / "redis"
        folder.mkdir()
        redis = stack.enter_context(redis_server(folder))
        running = RunningStack(home / "up", changes={"ingest_processes": 3, "redis_url": redis.url, "http_drain_seconds": 4})
        stack.callback(running.destroy)
        crowd = Several(running.start(), redis)
        stack.callback(crowd.stop)
        for name in BESIDE:
            crowd.start(name)
        crowd.wait_until_all_answer()
        yield crowd
