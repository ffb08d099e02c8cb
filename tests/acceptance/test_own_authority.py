"""A company uses its own certificate authority: `gridfleet ca import` before the first plant, and nothing else."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.fleet_under_test import Fleet
from support.servers.authorities import company_authority
from support.servers.running_stack import RunningStack

ROOT = company_authority("Company root", with_rsa=True)
ISSUING = company_authority("Company plants", ROOT)


@pytest.fixture
def own_stack() -> Iterator[RunningStack]:
    """A service of the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-ca-"))
    running = RunningStack(folder)
    try:
        yield running.start()
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def ca(stack: RunningStack, *arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
    """`gridfleet ca …` beside the service."""
    return subprocess.run(
        [sys.executable, "-m", "gridfleet", "ca", *arguments],
        env=stack.environment,
        input=answer,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
async def test_plants_and_broker_stand_below_the_companys_root(own_stack: RunningStack, tmp_path: Path) -> None:
    (tmp_path / "chain.pem").write_bytes(ISSUING.pem + ROOT.pem)
    (tmp_path / "key.pem").write_bytes(ISSUING.key_pem(b"secret"))
    files = (str(tmp_path / "chain.pem"), str(tmp_path / "key.pem"))
    assert ca(own_stack, "export").stdout.count("BEGIN CERTIFICATE") == 1

    wrong = ca(own_stack, "import", *files, answer="wrong\n")
    assert wrong.returncode == 1
    imported = ca(own_stack, "import", *files, answer="secret\n")
    assert imported.returncode == 0, imported.stderr
    assert "restart the service" in imported.stdout
    assert ca(own_stack, "export").stdout == (ISSUING.pem + ROOT.pem).decode()
    assert "PRIVATE KEY" in ca(own_stack, "export", "--key").stdout
    own_stack.stop()
    own_stack.start()

    fleet = Fleet(own_stack)
    try:
        plant = fleet.plant("MTLS")
        assert plant.package["security"]["caCert"] == (ISSUING.pem + ROOT.pem).decode()
        plant.package["security"]["caCert"] = ROOT.pem.decode()  # a client that trusts the root needs no more
        async with await plant.connect() as connection:
            await connection.publish(plant.topic("status"), b'{"status":"ONLINE"}')
    finally:
        fleet.close()

    refused = ca(own_stack, "import", *files, answer="secret\n")
    assert refused.returncode == 1
    assert "1 plants hold packages" in refused.stderr
    assert "--force" in refused.stderr
    assert ca(own_stack, "import", *files, "--force", answer="secret\n").returncode == 0
