"""HAProxy before two `serve`, with the section for REST of deploy/proxy/haproxy.cfg."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gridfleet.local.processes import Program, spawn
from support.clients.fleet_under_test import wait_for
from support.servers.free_ports import free_ports

_CONFIGURATION = Path(__file__).parents[3] / "deploy" / "proxy" / "haproxy.cfg"


def haproxy() -> str:
    """Return the path of the program."""
    program = shutil.which("haproxy", path=os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/usr/local/sbin")))
    assert program is not None, "run scripts/ensure_test_tools.sh"
    return program


@contextmanager
def balanced(base_urls: Sequence[str], folder: Path) -> Iterator[str]:
    """Run HAProxy before these two until the end of the block. Yields its base URL."""
    (port,) = free_ports(1)
    sections = _CONFIGURATION.read_text().split("\n\n")
    filled = "\n\n".join(one for one in sections if "\ndefaults" in one or "\nlisten rest" in one)
    filled = filled.replace("@BALANCER_PRIVATE_ADDRESS@:@HTTP_PORT@", f"127.0.0.1:{port}")
    for number, url in enumerate(base_urls, start=1):
        filled = filled.replace(f"@SERVE_HOST_{number}@:@HTTP_PORT@", urlsplit(url).netloc)
    file = folder / "haproxy.cfg"
    file.write_text(filled + "\n")
    with (folder / "haproxy.log").open("ab") as output:
        running = spawn(Program("haproxy", (haproxy(), "-db", "-f", str(file)), dict(os.environ), folder), output)
        try:
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
                wait_for(lambda: client.get(f"{url}/api/v1/health/live").is_success)
            yield url
        finally:
            running.terminate()
            running.wait(10)
