"""The service behind deploy/proxy/haproxy.cfg."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiormq
import httpx
import pytest

from gridfleet.local.processes import Program
from support.clients.fleet_under_test import Fleet, wait_for
from support.servers.deployed_stack import DeployedStack

BALANCER = "127.0.0.9"
NODE = "127.0.0.1"
PARTNER = "127.0.0.2"


@dataclass
class BalancedStack(DeployedStack):
    """One node and one `serve` behind HAProxy, which listens on the same ports of another loopback address."""

    def _answers(self) -> dict[str, str]:
        hosts = ("RABBITMQ_HOST_1", "RABBITMQ_HOST_2", "RABBITMQ_HOST_3", "SERVE_HOST_1", "SERVE_HOST_2")
        return {
            **super()._answers(),
            **dict.fromkeys(hosts, NODE),
            "BALANCER_PUBLIC_ADDRESS": BALANCER,
            "BALANCER_PRIVATE_ADDRESS": BALANCER,
            "INTERNAL_ADDRESS": f"{BALANCER}:{self.ports['internal_port']}",
            "INTERNAL_PORT": str(self.ports["internal_port"]),
            "HTTP_PORT": str(self.ports["http_port"]),
        }

    def _environment_file(self, answers: dict[str, str]) -> dict[str, str]:
        values = super()._environment_file(answers)
        for name in ("GRIDFLEET_BROKER_URL", "GRIDFLEET_BROKER_MANAGEMENT_URL"):
            values[name] = values[name].replace(f"@{NODE}:", f"@{BALANCER}:")
        return values

    def _start_rabbitmq(self, configuration: Path) -> None:
        path = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"))
        program = shutil.which("haproxy", path=path)
        assert program is not None, "run scripts/ensure_test_tools.sh"
        file = str(configuration.parent / "proxy" / "haproxy.cfg")
        subprocess.run([program, "-c", "-f", file], check=True, capture_output=True)
        self._spawn(Program("haproxy", (program, "-db", "-f", file), dict(os.environ), self.home))
        super()._start_rabbitmq(configuration)


@pytest.fixture(scope="module")
def balanced() -> Iterator[BalancedStack]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-balanced-"))
    stack = BalancedStack(folder)
    try:
        stack.start()
        internal = f"http://{BALANCER}:{stack.ports['internal_port']}/"
        wait_for(lambda: httpx.get(internal).status_code != httpx.codes.SERVICE_UNAVAILABLE)
        yield stack
    finally:
        stack.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def forwarded(source: str, port: int) -> AsyncIterator[int]:
    """Yield a local port whose connections reach the balancer from the address `source`."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(BALANCER, port, local_addr=(source, 0))
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass  # a refused login ends with a reset
        finally:
            writer.close()

    server = await asyncio.start_server(forward, NODE, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.fixture(scope="module")
def fleet(balanced: BalancedStack) -> Iterator[Fleet]:
    found = Fleet(balanced)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(("allowed", "accepted"), [(NODE, True), (PARTNER, False)], ids=["balancer", "partner"])
async def test_allowed_addresses_are_those_of_the_balancer(
    balanced: BalancedStack, fleet: Fleet, allowed: str, accepted: bool
) -> None:
    partner = {"name": "Trader", "partnerId": "t", "scopes": ["vcp:connect"], "allowedIps": [f"{allowed}/32"]}
    created = fleet.call("POST", "/partner/api-keys", partner)
    slug = fleet.call("GET", f"/organizations/{fleet.organization_id}")["slug"]
    vhost, authority = quote(created["apiKey"]["vhost"], safe=""), balanced.home / "setup" / "ca" / "ca.pem"
    async with forwarded(PARTNER, balanced.ports["amqps_port"]) as port:
        login = aiormq.connect(f"amqps://{slug}:{created['key']}@localhost:{port}/{vhost}?cafile={authority}")
        if accepted:
            connection = await login
            await connection.close()
        else:
            with pytest.raises(aiormq.exceptions.AMQPError):
                await login


def test_rest_knows_the_caller_before_the_balancer(balanced: BalancedStack, fleet: Fleet) -> None:
    wrong = {"email": "absent@example.com", "password": "Wrong-horse-7"}
    url = f"http://{BALANCER}:{balanced.ports['http_port']}/api/v1/auth/login"
    transport = httpx.HTTPTransport(local_address=PARTNER)
    with httpx.Client(transport=transport, headers={"x-forwarded-for": "198.51.100.1"}) as client:
        assert client.post(url, json=wrong).status_code == httpx.codes.UNAUTHORIZED
    everywhere = {"authorization": fleet.headers["authorization"]}
    answer = httpx.get(f"{balanced.base_url}/api/v1/audit-events?event=user.login_failed", headers=everywhere)
    assert [event["ip"] for event in answer.json()["data"]] == [PARTNER]
