"""`/metrics` answers whatever is away, and names no tenant or user."""

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from gridfleet.api.http.endpoint import ENDPOINTS
from gridfleet.api.internal.app import create_internal_app
from gridfleet.api.internal.metrics import Scrape
from gridfleet.kernel.outbox import enqueue
from gridfleet.kernel.process_metrics import measure_process, serve_metrics
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from support.servers.api_service import ApiService, api_service
from support.servers.free_ports import free_ports
from support.servers.running_task import running
from support.servers.tls_files import tls_files


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home) as running:
        yield running


async def scrape(service: ApiService, method: str = "GET", path: str = "/metrics") -> httpx.Response:
    transport = httpx.ASGITransport(cast("Any", create_internal_app(service.state)))
    async with httpx.AsyncClient(transport=transport, base_url="http://inside") as client:
        return await client.request(method, path)


async def test_the_metrics_of_queues_come_from_the_database(service: ApiService) -> None:
    async with service.state.database.transaction() as db:
        for number in range(3):
            await enqueue(db, "test", {"number": number})
        await db.execute("UPDATE outbox SET due_at = now() - interval '5 minutes'")
    text = (await scrape(service)).text
    assert 'gridfleet_queue_length{queue="outbox"} 3.0' in text
    oldest = re.search(r'gridfleet_queue_oldest_seconds\{queue="outbox"\} (\S+)', text)
    assert oldest is not None
    assert 300 <= float(oldest[1]) < 1_000
    assert "gridfleet_database_up 1.0" in text


async def test_without_a_database_it_answers_all_the_same(service: ApiService) -> None:
    await service.state.reserved.close()
    answer = await scrape(service)
    assert answer.status_code == 200
    assert "gridfleet_database_up 0.0" in answer.text
    assert "gridfleet_queue_length{" not in answer.text
    assert "gridfleet_http_request_seconds" in answer.text


async def test_a_database_whose_connections_are_all_in_use_is_up(service: ApiService) -> None:
    async with contextlib.AsyncExitStack() as logins:
        for _ in range(4):
            await logins.enter_async_context(service.state.reserved.transaction())
        text = (await scrape(service)).text
    assert "gridfleet_database_up 1.0" in text
    assert "gridfleet_queue_length{" not in text


async def test_a_database_that_reads_its_queues_slowly_is_up(service: ApiService) -> None:
    async with service.state.database.transaction() as db:
        await db.execute("LOCK TABLE outbox")
        text = (await scrape(service)).text
    assert "gridfleet_database_up 1.0" in text
    assert "gridfleet_queue_length{" not in text


async def test_events_that_are_read_slowly_hide_no_other_queue(service: ApiService) -> None:
    """A dump keeps the rows of all events that are published meanwhile."""
    async with service.state.database.transaction() as db:
        await enqueue(db, "test", {})
    assert 'gridfleet_queue_length{queue="partner_events"} 0.0' in (await scrape(service)).text
    async with service.state.database.transaction() as db:
        await db.execute("LOCK TABLE partner_event")
        text = (await scrape(service)).text
    assert 'gridfleet_queue_length{queue="outbox"} 1.0' in text
    assert 'queue="partner_events"' not in text


async def test_the_certificate_is_the_one_that_the_broker_shows(
    database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for interval in ("KEPT_SECONDS", "CERTIFICATE_SECONDS"):
        monkeypatch.setattr(f"gridfleet.api.internal.metrics.{interval}", 0.0)
    (port,), keys = free_ports(1), Keyring.generate()
    tls_files(home / "ca", "localhost")  # renewed, and not installed
    async with api_service(database_url, home, keys=keys, mqtts_port=port) as service:
        assert days_left(await Scrape(service.state, shared_ports=True).text()) > 100, "without a broker, those of the file"
    issued = Authority.create().issue_server(["localhost"], timedelta(days=5))
    (home / "shown.pem").write_text(issued.certificate_pem + issued.key_pem)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(home / "shown.pem")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port, ssl=tls)
    async with api_service(database_url, home, keys=keys, mqtts_port=port) as service:
        shared = Scrape(service.state, shared_ports=True)
        async with server:
            assert 4 < days_left(await shared.text()) <= 5
        assert 4 < days_left(await shared.text()) <= 5, "also while the broker is away"


async def test_the_certificate_for_users_is_the_one_with_which_serve_started(database_url: str, home: Path) -> None:
    file = home / "rest.pem"
    issued = Authority.create().issue_server(["localhost"], timedelta(days=5))
    file.write_text(issued.certificate_pem)
    async with api_service(database_url, home, http_certificate=file, http_key=file) as service:
        scraped = Scrape(service.state, shared_ports=True)
        file.write_text(Authority.create().issue_server(["localhost"]).certificate_pem)
        assert 4 < days_left(await scraped.text(), b"rest") <= 5, "the new one is shown after a restart"


def days_left(text: bytes, certificate: bytes = b"server") -> float:
    found = re.search(rb'gridfleet_certificate_expiry_timestamp_seconds\{certificate="%b"\} (\S+)' % certificate, text)
    assert found is not None
    return (float(found[1]) - time.time()) / 86_400


def routes_in(text: str) -> set[str]:
    return set(re.findall(r'gridfleet_http_request_seconds_count\{.*?route="([^"]*)"', text))


async def test_callers_make_up_no_labels(service: ApiService) -> None:
    before = routes_in((await scrape(service)).text)  # other tests of this process may have routes of their own
    for method, path in [
        ("GET", "/a/b"),
        ("GET", "/api/v1/plants/x/y/z"),
        ("PROPFIND", "/api/v1/plants"),
        ("GET", "/%7Bid%7D"),
    ]:
        await service.client.request(method, path)
    text = (await scrape(service)).text
    assert "-" in routes_in(text)
    assert routes_in(text) - before - {"-"} <= {path for _, path in ENDPOINTS}
    assert "PROPFIND" not in text


@pytest.mark.parametrize(("method", "path"), [("POST", "/metrics"), ("GET", "/metrics/"), ("GET", "/"), ("GET", "/x/metrics")])
async def test_nothing_else_is_open(service: ApiService, method: str, path: str) -> None:
    assert (await scrape(service, method, path)).status_code == 404


async def test_other_processes_serve_them_on_a_port_of_their_own(service: ApiService) -> None:
    (port,) = free_ports(1)
    settings = service.state.settings.model_copy(update={"metrics_port": port})
    databases = {"main": service.state.database}
    async with (
        running(measure_process("ingest", databases)),
        running(measure_process("jobs", databases)),
        running(serve_metrics(settings)),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", transport=httpx.AsyncHTTPTransport(retries=5)) as client,
    ):
        text = (await client.get("/metrics")).text
        assert 'gridfleet_process_memory_bytes{process="ingest"}' in text
        assert 'gridfleet_database_connections{pool="main",process="jobs",state="idle"}' in text
        assert 'gridfleet_processes{process="jobs"} 1.0' in text
        assert 'gridfleet_event_loop_lag_seconds_bucket{le="0.5",process="jobs"}' in text
        assert (await client.post("/metrics")).status_code == 405


async def test_processes_on_one_port_serve_there_only_what_all_of_them_read(service: ApiService) -> None:
    transport = httpx.ASGITransport(cast("Any", create_internal_app(service.state, shared_ports=True)))
    async with httpx.AsyncClient(transport=transport, base_url="http://inside") as client:
        text = (await client.get("/metrics")).text
    assert "gridfleet_database_up 1.0" in text
    assert "gridfleet_http_request_seconds" not in text
