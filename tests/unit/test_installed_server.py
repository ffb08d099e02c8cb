"""A server's package is installed without starting the server: RabbitMQ's would leave its port mapper on all addresses."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest

from support.servers.free_ports import free_ports

ROOT = Path(__file__).parents[2]

# What a Debian package's script does where there is no systemd: it asks the policy, then starts the service. The port mapper's
# first process ends before its daemon listens.
APT_GET = """#!/bin/sh
[ "$1" = install ] || exit 0
if [ -e {policy} ]; then {policy} rabbitmq-server start; answer=$?; else answer=0; fi
[ "$answer" -eq 101 ] && exit 0
epmd -daemon -port {port}
until epmd -port {port} -names >/dev/null 2>&1; do sleep 0.1; done
"""


@pytest.mark.skipif(os.getuid() != 0, reason="installs as root, without asking for a password")
@pytest.mark.skipif(shutil.which("epmd") is None, reason="needs Erlang's port mapper")
@pytest.mark.parametrize(("function", "left"), [("install_server rabbitmq-server", []), ("install_packages", ["epmd"])])
def test_no_port_mapper_is_left(tmp_path: Path, function: str, left: list[str]) -> None:
    [port] = free_ports(1)
    policy = tmp_path / "policy-rc.d"
    script = (ROOT / "scripts" / "packages.sh").read_text()
    assert "policy=/usr/sbin/policy-rc.d\n" in script
    (tmp_path / "packages.sh").write_text(script.replace("policy=/usr/sbin/policy-rc.d\n", f"policy={policy}\n"))
    (tmp_path / "apt-get").write_text(APT_GET.format(policy=policy, port=port))
    (tmp_path / "apt-get").chmod(0o755)
    command = f". {tmp_path}/packages.sh; {function} RabbitMQ rabbitmq-server rabbitmq-server rabbitmq"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["sh", "-eu", "-c", command], env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert [process.name() for process in _listening(port)] == left
        assert not policy.exists()
    finally:
        for process in _listening(port):
            process.kill()


def _listening(port: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(one.laddr[1:2] == (port,) and one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp")):
                found.append(process)
    return found
