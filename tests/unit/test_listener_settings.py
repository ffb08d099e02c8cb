"""The plain MQTT listener can be left out, and a process may hold as many connections as it is set to."""

import resource
import subprocess
import sys
from pathlib import Path

from gridfleet.local.broker.configuration import configuration_lines
from gridfleet.local.machine import Machine
from gridfleet.local.ports import check_ports
from support.servers.free_ports import settings_at


def test_port_0_leaves_the_plain_listener_closed(tmp_path: Path) -> None:
    settings = settings_at(tmp_path, mqtt_port=0, internal_secret="inside")
    lines = list(configuration_lines(settings, "http"))
    assert [line for line in lines if line.startswith("mqtt.listeners.tcp")] == ["mqtt.listeners.tcp = none"]
    assert check_ports(settings, with_broker=True) == []
    assert "mqtt" not in Machine(settings).addresses


def test_the_soft_limit_of_open_files_is_raised_as_far_as_the_hard_one_allows() -> None:
    script = (
        "import resource; from gridfleet.kernel.open_files import allow_open_files\n"
        "for wanted in (500, 100, 1_000_000):\n"
        "    allow_open_files(wanted); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 800))

    done = subprocess.run([sys.executable, "-c", script], preexec_fn=lower, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.split() if line.isdigit()] == ["500", "500", "800"]
    assert "limit of open files is low" in done.stdout + done.stderr
