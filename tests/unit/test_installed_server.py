"""A server's package is installed without starting the server: RabbitMQ's would leave its port mapper on all addresses."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
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
    command = _installation(tmp_path, policy, APT_GET.format(policy=policy, port=port), function)
    try:
        done = subprocess.run(command, env=_environment(tmp_path), cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert [process.name() for process in _listening(port)] == left
        assert not policy.exists()
    finally:
        for process in _listening(port):
            process.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="installs as root, without asking for a password")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_installation_leaves_no_policy(tmp_path: Path, number: signal.Signals) -> None:
    """Otherwise no service of any package would start that is installed later. After a kill, the next run removes it."""
    policy, log = tmp_path / "policy-rc.d", tmp_path / "log"
    waits = f'#!/bin/sh\n[ "$1" = install ] || exit 0\n[ -e {log} ] && exit 0\ntouch {log}\nsleep 60\n'
    command = _installation(tmp_path, policy, waits, "install_server rabbitmq-server")
    run = subprocess.Popen(command, env=_environment(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not log.exists():
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert policy.exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, number)
        run.communicate(timeout=10)
    assert policy.exists() is (number is signal.SIGKILL)
    subprocess.run(command, env=_environment(tmp_path), cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert not policy.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="installs as root, without asking for a password")
def test_the_policy_of_the_system_is_kept(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    command = _installation(tmp_path, policy, "#!/bin/sh\n", "install_server rabbitmq-server")
    subprocess.run(command, env=_environment(tmp_path), cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def _installation(folder: Path, policy: Path, apt_get: str, function: str) -> list[str]:
    """Return a command that installs a package with this `apt-get` and this file of the policy."""
    script = (ROOT / "scripts" / "packages.sh").read_text()
    assert "policy=/usr/sbin/policy-rc.d\n" in script
    (folder / "packages.sh").write_text(script.replace("policy=/usr/sbin/policy-rc.d\n", f"policy={policy}\n"))
    (folder / "apt-get").write_text(apt_get)
    (folder / "apt-get").chmod(0o755)
    # A shell cannot trap signals that were ignored at its start, as below `nohup`.
    script = f". {folder}/packages.sh; {function} RabbitMQ rabbitmq-server rabbitmq-server rabbitmq"
    return ["env", "--default-signal=HUP,INT,TERM", "sh", "-eu", "-c", script]


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def _listening(port: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(one.laddr[1:2] == (port,) and one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp")):
                found.append(process)
    return found
