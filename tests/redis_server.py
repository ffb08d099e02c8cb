"""A Redis or Valkey server of the test's own."""

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

from free_ports import free_ports
from gridfleet.kernel.supervisor import Program, spawn, stop_process

WHERE = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


@dataclass
class RedisServer:
    """One server on loopback that keeps nothing on disk. What it held is gone when it is killed."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """As `GRIDFLEET_REDIS_URL` wants it."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def program(self) -> Program:
        """How it is run."""
        binary = shutil.which("redis-server", path=WHERE) or shutil.which("valkey-server", path=WHERE)
        assert binary is not None, "run scripts/ensure_redis.sh"
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": str(self.folder)}
        argv = (binary, *(text for name, value in options.items() for text in (f"--{name}", str(value))))
        return Program(name="redis", argv=argv, folder=self.folder, stop_seconds=5)

    def start(self) -> "RedisServer":
        """Starts it, and waits until it takes connections."""
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
        """Sends it a signal: SIGSTOP freezes it, SIGCONT lets it go on."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kills it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends it, frozen or not."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            stop_process(self.program, self.process)


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """A running server until the end of the block."""
    server = RedisServer(folder)
    try:
        yield server.start()
    finally:
        server.stop()
