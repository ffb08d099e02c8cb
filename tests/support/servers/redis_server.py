"""A private Redis or Valkey server for a test."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gridfleet.local.processes import Program, spawn, stop_process
from support.servers.free_ports import free_ports

WHERE = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


@dataclass
class RedisServer:
    """A server on loopback without persistence. Its data is lost when it is killed."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Value for `GRIDFLEET_REDIS_URL`."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def program(self) -> Program:
        """The program with its options."""
        binary = shutil.which("redis-server", path=WHERE) or shutil.which("valkey-server", path=WHERE)
        assert binary is not None, "run scripts/ensure_redis.sh"
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": str(self.folder)}
        argv = (binary, *(text for name, value in options.items() for text in (f"--{name}", str(value))))
        return Program(name="redis", argv=argv, folder=self.folder, stop_seconds=5)

    def start(self) -> "RedisServer":
        """Start the server and wait until it accepts connections."""
        with (self.folder / "redis.log").open("ab") as output:
            self.process = spawn(self.program, output)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.01)
                continue
            return self
        raise RuntimeError(f"redis does not start:\n{(self.folder / 'redis.log').read_text()}")

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal: SIGSTOP freezes it, SIGCONT resumes it."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the server immediately."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop the server, even if it is frozen."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            stop_process(self.program, self.process)


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Run a server until the end of the block."""
    server = RedisServer(folder)
    try:
        yield server.start()
    finally:
        server.stop()
