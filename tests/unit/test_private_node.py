"""What a private node that does not start reports, and that two test runs get different ports."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from gridfleet.local.broker.private_node import PrivateBroker, PrivateBrokerError
from support.servers import free_ports

LOG = """\
2026-01-02 03:04:05.678901+00:00 [info] <0.221.0>  Starting RabbitMQ 4.0.5
2026-01-02 03:04:06.678901+00:00 [error] <0.501.0> Failed to start Ranch listener {acceptor,{127,0,0,1},5672} (eaddrinuse)
2026-01-02 03:04:07.678901+00:00 [error] <0.221.0> BOOT FAILED
"""


def test_a_slow_node_is_reported_with_the_port_that_is_missing(tmp_path: Path) -> None:
    settings = free_ports.settings_at(tmp_path)
    with pytest.raises(PrivateBrokerError, match=rf"nothing listens at \S+:{settings.mqtt_port} after 0.2 s"):
        PrivateBroker(settings).wait_until_ready(lambda: True, seconds=0.2)


@pytest.mark.parametrize(("log", "reason"), [(LOG, "it ended, Failed to start Ranch listener .*eaddrinuse"), ("", "it ended;")])
def test_a_node_that_ended_is_reported_with_its_error(tmp_path: Path, log: str, reason: str) -> None:
    (tmp_path / "broker" / "logs").mkdir(parents=True)
    (tmp_path / "broker" / "logs" / "node.log").write_text(log)
    with pytest.raises(PrivateBrokerError, match=reason):
        PrivateBroker(free_ports.settings_at(tmp_path)).wait_until_ready(lambda: False)


def test_two_test_runs_get_different_ports() -> None:
    program = "import random; from free_ports import free_ports; random.seed(7); print(*free_ports(10))"
    state = random.getstate()
    random.seed(7)
    mine = free_ports.free_ports(10)
    random.setstate(state)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(free_ports.__file__).parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not set(mine) & set(map(int, done.stdout.split()))
