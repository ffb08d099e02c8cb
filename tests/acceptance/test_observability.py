"""An operator sees what the service does: metrics of all processes, one id in all logs, traces, a log of JSON alone."""

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gridfleet.domains.plants.connections import CLOSE_CONNECTIONS
from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY
from support.servers.free_ports import free_port_range
from support.servers.running_stack import ADMIN_EMAIL, ADMIN_PASSWORD, RunningStack
from support.servers.trace_collector import Collector, trace_collector


@dataclass
class Watched:
    """A running service that logs JSON and sends traces, and a logged-in user who acts in an organisation."""

    stack: RunningStack
    collector: Collector
    http: httpx.Client

    def lines(self) -> list[dict[str, Any]]:
        """The log so far; raises for a line that is no JSON."""
        text = self.stack.log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n")].splitlines()]

    def figures(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """All samples by name and sorted labels, summed over the processes."""
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for port in self.metrics_ports:
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
            assert answer.status_code == 200
            for family in text_string_to_metric_families(answer.text):
                for one in family.samples:
                    key = (one.name, tuple(sorted(one.labels.items())))
                    found[key] = found.get(key, 0) + one.value
        return found

    @property
    def metrics_ports(self) -> list[int]:
        """Ports of serve, gateway, jobs and one ingest process."""
        first = int(str(self.stack.changes["metrics_port"]))
        return [self.stack.ports["internal_port"], first, first + 1, first + 2]


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-up-"))
    with trace_collector() as collector, sooner():
        changes = {
            "log_format": "json",
            "otlp_endpoint": collector.url,
            "metrics_port": free_port_range(3),
            "ingest_processes": 1,
        }
        stack = RunningStack(folder, changes=changes)
        try:
            stack.start()
            with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=30) as http:
                login = http.post("/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD}).json()
                http.headers["authorization"] = f"Bearer {login['access_token']}"
                organization = http.post("/organizations", json={"name": "Sun", "slug": "sun"}).json()
                http.headers["x-org-id"] = organization["id"]
                yield Watched(stack, collector, http)
        finally:
            stack.destroy()
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sooner() -> Iterator[None]:
    """Processes that start within the block send their spans ten times a second."""
    os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "100"
    try:
        yield
    finally:
        del os.environ["OTEL_BSP_SCHEDULE_DELAY"]


def until(found: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        if result := found():
            return result
        assert time.monotonic() < deadline
        time.sleep(0.1)


def new_plant(watched: Watched) -> str:
    body = {"name": "Roof", "serialNumber": f"SN-{uuid.uuid4().hex[:8]}", "type": "GATEWAY", "authMethod": "PASSWORD"}
    plant = watched.http.post("/plants", json=body).json()
    assert watched.http.post(f"/plants/{plant['id']}/provision").status_code == 200
    return str(plant["id"])


def test_one_call_is_found_in_every_log_and_in_one_trace(watched: Watched) -> None:
    plant_id = new_plant(watched)
    request_id, trace, parent = str(uuid.uuid4()), uuid.uuid4().hex, uuid.uuid4().hex[:16]
    headers = {"x-request-id": request_id, "traceparent": f"00-{trace}-{parent}-01"}

    answer = watched.http.delete(f"/plants/{plant_id}?reason=secret-token", headers=headers)

    assert answer.is_success
    assert answer.headers["x-request-id"] == request_id
    wanted = {("serve", "request"), ("gateway", "effect carried out"), ("jobs", "job done")}
    until(lambda: wanted <= {(line["process"], line["event"]) for line in of(watched, request_id)})
    assert {line["trace_id"] for line in of(watched, request_id)} == {trace}

    names = {"DELETE /api/v1/plants/{id}", f"effect {CLOSE_CONNECTIONS}", f"job {ERASE_TELEMETRY}", "transaction"}
    until(lambda: names <= {span.name for span in watched.collector.of(trace)})
    spans = watched.collector.of(trace)
    assert {span.process for span in spans} == {"serve", "gateway", "jobs"}
    known = {span.id for span in spans} | {parent}
    assert {span.parent for span in spans} <= known, "all hang together, below the caller's"
    (served,) = [span for span in spans if span.parent == parent]
    assert served.attributes["http.response.status_code"] == answer.status_code
    assert "secret-token" not in repr(watched.collector.spans)


def of(watched: Watched, request_id: str) -> list[dict[str, Any]]:
    return [line for line in watched.lines() if line.get("request_id") == request_id]


def test_an_id_that_is_none_is_replaced(watched: Watched) -> None:
    for given in ("x" * 5_000, 'a"b\\c', "1; DROP"):
        answer = watched.http.get("/health", headers={"x-request-id": given})
        assert uuid.UUID(answer.headers["x-request-id"])
        assert given not in watched.stack.log.read_text()


def test_spans_contain_no_secrets_and_no_addresses(watched: Watched) -> None:
    until(lambda: [span for span in watched.collector.spans if span.name.startswith("POST /api/v1/auth/login")])
    exported = repr(watched.collector.spans)
    for secret in (ADMIN_EMAIL, ADMIN_PASSWORD, "Roof", "Bearer", "127.0.0.1"):
        assert secret not in exported


def test_the_figures_are_those_of_all_processes(watched: Watched) -> None:
    new_plant(watched)
    for path in ("/nothing/here", "/plants/../x", "/api/v1/plants/%ff"):
        watched.http.get(path)
    watched.http.request("BREW", "/health")
    kinds = {"serve", "ingest", "gateway", "jobs"}
    until(lambda: {dict(labels)["process"] for (name, labels) in watched.figures() if name == "gridfleet_processes"} == kinds)
    until(lambda: watched.figures().get(("gridfleet_broker_connections", ()), 0) >= 3)
    figures = watched.figures()
    assert figures["gridfleet_database_up", ()] == 1
    assert {dict(labels)["queue"] for (name, labels) in figures if name == "gridfleet_queue_length"} == {
        "outbox",
        "jobs",
        "notifications",
        "commands",
        "partner_events",
        "roll_ups_set_aside",
    }
    ends = figures["gridfleet_certificate_expiry_timestamp_seconds", (("certificate", "server"),)]
    assert time.time() + 30 * 86_400 < ends < time.time() + 10 * 365 * 86_400
    # From 0 on, or an alert about the first failure of a daily job, and about the first dropped event, would not fire.
    assert figures["gridfleet_jobs_total", (("name", "alerts.delete_resolved"), ("outcome", "failed"))] == 0
    assert figures["gridfleet_partner_events_dropped_total", (("reason", "maxlen"),)] == 0
    requests = [dict(labels) for (name, labels) in figures if name == "gridfleet_http_request_seconds_count"]
    assert {"method": "POST", "route": "/api/v1/plants", "status": "201"} in requests
    assert {
        one["route"] for one in requests if "nothing" in one["route"] or "%" in one["route"] or ".." in one["route"]
    } == set()
    assert {one["method"] for one in requests} <= {"GET", "POST", "PUT", "PATCH", "DELETE", "other"}
    assert {"method": "GET", "route": "-", "status": "404"} in requests
    assert figures["gridfleet_audit_events_total", (("event", "user.logged_in"),)] == 1


def test_the_whole_log_is_json_even_when_the_database_is_killed(watched: Watched) -> None:
    watched.stack.wait_for_restart("postgres", watched.stack.kill("postgres"))
    until(lambda: answers(watched))
    assert watched.stack.stop() == 0
    lines = watched.lines()
    assert len(lines) > 50
    for line in lines:
        assert {"event", "level", "logger", "process", "timestamp"} <= line.keys(), line
    assert {line["process"] for line in lines} >= {"up", "serve", "gateway", "jobs", "postgres"}
    assert any("reason" in line for line in lines if line["event"] == "task failed"), "what ended with the database says why"
    assert not [line for line in lines if "OperationalError" in line.get("exception", "")], "a traceback is of no use there"


def answers(watched: Watched) -> bool:
    try:
        return watched.http.get("/health/ready").status_code == 200
    except httpx.TransportError:
        return False
