"""`gridfleet up`: starts, resumes, survives the death of any part, says clearly why it does not start."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gridfleet.kernel.security.certificates import Authority
from gridfleet.local.broker import private_node
from gridfleet.local.broker.installation import find_installation
from gridfleet.local.broker.plugins import needs_auth_plugin
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.secrets import ensure_local_secrets
from support.servers.free_ports import free_ports, settings_at
from support.servers.running_stack import ADMIN_EMAIL, ADMIN_PASSWORD, RunningStack


@pytest.fixture(scope="module")
def own() -> Iterator[RunningStack]:
    """A service for this module alone, since its parts are killed."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-up-"))
    running = RunningStack(folder)
    try:
        yield running
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def test_starts_and_prints_where_everything_is(own: RunningStack) -> None:
    own.start()
    assert own.state["urls"]["api"] == f"http://localhost:{own.ports['http_port']}/api/v1"
    assert set(own.state["processes"]) >= {"postgres", "epmd", "broker", "serve", "gateway", "jobs"}
    log = own.log.read_text()
    assert ADMIN_EMAIL in log
    assert ADMIN_PASSWORD not in log
    assert login(own)["user"]["isSuperAdmin"] is True
    for secret in (own.home / "secrets").iterdir():
        assert secret.stat().st_mode & 0o777 == 0o600
    assert (own.home / "secrets").stat().st_mode & 0o777 == 0o700


def test_a_second_start_in_the_same_home_is_refused(own: RunningStack) -> None:
    second = RunningStack(own.home, ports=own.ports)
    assert second.launch().wait(300) == 1
    assert f"already runs in {own.home} (process {own.state['pid']})" in own.log.read_text()
    assert own.ready(own.state["pid"])


@pytest.mark.parametrize("name", ["serve", "jobs", "broker", "postgres", "epmd"])
def test_a_killed_part_is_started_again(own: RunningStack, name: str) -> None:
    killed = own.kill(name)
    own.wait_for_restart(name, killed)
    own.wait_until_healthy()
    login(own)


def test_a_stop_ends_every_process_and_the_next_start_goes_on_with_all_data(own: RunningStack) -> None:
    token = login(own)["access_token"]
    organization = call(own, "POST", "/api/v1/organizations", {"name": "Kept", "slug": "kept"}, token)
    assert own.stop() == 0
    assert not own.processes()
    assert not (own.home / "run.json").exists()
    node_log = (own.home / "broker" / "logs" / "node.log").read_text()
    began = node_log.rindex("to stop collect_statistics")
    assert began < node_log.rindex("SIGTERM received"), "the management agent would wait five seconds for an answer"
    own.start()
    assert call(own, "GET", f"/api/v1/organizations/{organization['id']}", None, login(own)["access_token"]) == organization
    assert "Password" not in own.log.read_text()


def test_after_a_kill_of_the_supervisor_the_next_start_recovers(own: RunningStack) -> None:
    assert own.process is not None
    own.process.kill()
    own.process.wait()
    own.start()
    login(own)


def test_after_a_kill_of_everything_the_next_start_recovers(own: RunningStack) -> None:
    assert own.process is not None
    for pid in [own.process.pid, *own.state["processes"].values()]:
        with contextlib.suppress(ProcessLookupError):  # the first one's death may already have ended it
            os.kill(pid, signal.SIGKILL)
    own.process.wait()
    own.start()
    login(own)


def test_an_occupied_port_is_named_with_its_setting_and_process(home: Path) -> None:
    port = free_ports(1)[0]
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        stack = RunningStack(home)
        stack.ports["mqtt_port"] = port
        assert stack.launch().wait(300) == 1
    text = stack.log.read_text()
    assert f"port {port} of 127.0.0.1 is in use by {psutil.Process().name()} (process {os.getpid()})" in text
    assert "GRIDFLEET_MQTT_PORT" in text
    assert "Traceback" not in text


class _Stranger(http.server.BaseHTTPRequestHandler):
    """Answers every question as a healthy service would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def test_another_program_on_the_port_is_not_mistaken_for_the_service(home: Path) -> None:
    starting = RunningStack(home)
    process = starting.launch()
    try:
        while "PostgreSQL is running" not in starting.log.read_text():  # the ports have been checked
            assert process.poll() is None, starting.log.read_text()
            time.sleep(0.05)
        with http.server.ThreadingHTTPServer(("127.0.0.1", starting.ports["http_port"]), _Stranger) as stranger:
            threading.Thread(target=stranger.serve_forever, daemon=True).start()
            assert process.wait(300) == 1
            stranger.shutdown()
        log = starting.log.read_text()
        assert "Gridfleet is ready" not in log
        assert f"port {starting.ports['http_port']} of 127.0.0.1 is in use by" in log
    finally:
        starting.destroy()


@pytest.mark.parametrize("until", ["PostgreSQL is running", "the database is up to date"])
def test_ctrl_c_while_starting_ends_at_once(home: Path, until: str) -> None:
    stack = RunningStack(home)
    process = stack.launch()
    try:
        while until not in stack.log.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        assert stack.stop(30) == 0
        assert not stack.processes()
    finally:
        stack.destroy()


@pytest.mark.skipif(not needs_auth_plugin(find_installation().version), reason="only RabbitMQ 4.0 needs the plugin")
def test_a_broker_without_its_plugin_is_refused(home: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_node, "needed_plugins", lambda _: ("gridfleet_bounds",))
    settings = settings_at(home / "server")
    ensure_local_secrets(settings.home)
    write_server_certificate(settings.home / "ca", Authority.create(), ["localhost"])
    node = private_node.PrivateBroker(settings)
    changes = {"database_url": database_url, "broker_url": node.url, "broker_management_url": node.management_url}
    stack = RunningStack(home, changes=changes)
    try:
        node.start()
        assert stack.launch().wait(300) == 1
        [line] = [line for line in stack.log.read_text().splitlines() if "gridfleet_auth_http" in line]
        assert f"RabbitMQ {find_installation().version}" in line
        assert "docs/deployment.md" in line
    finally:
        stack.destroy()
        node.stop()


def test_an_invalid_setting_is_named(home: Path) -> None:
    stack = RunningStack(home, changes={"http_port": "eighty"})
    assert stack.launch().wait(300) == 2
    assert "GRIDFLEET_HTTP_PORT" in stack.log.read_text()


def call(stack: RunningStack, method: str, path: str, body: object, token: str | None = None) -> dict[str, object]:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(stack.base_url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def login(stack: RunningStack) -> dict[str, object]:
    return call(stack, "POST", "/api/v1/auth/login", {"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD})
