"""Shared fixtures: real servers, started once a session and stopped whatever happens.

`database`: a fresh migrated PostgreSQL database for each test. `broker`: a private RabbitMQ node alone. `stack`: the
whole service, as `gridfleet up` runs it.
"""

import itertools
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from broker_node import BrokerNode
from expo_server import ExpoServer, expo_server
from fleet_under_test import Fleet
from free_ports import settings_at
from gridfleet.kernel.broker.private_node import PrivateBroker
from gridfleet.kernel.broker.server_certificate import write_server_certificate
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.embedded import EmbeddedPostgres
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.local_secrets import ensure_local_secrets
from running_stack import RunningStack
from secrets_in_logs import SEARCH, note_what_clients_see

_numbers = itertools.count(1)


USE_STACK = {
    "tests/acceptance/test_accounts.py",
    "tests/acceptance/test_alerts.py",
    "tests/acceptance/test_backup.py",
    "tests/acceptance/test_commands.py",
    "tests/acceptance/test_guides.py",
    "tests/acceptance/test_main_path.py",
    "tests/acceptance/test_partner.py",
    "tests/acceptance/test_plant_life.py",
    "tests/acceptance/test_trading.py",
    "tests/faults/test_revocation.py",
    "tests/integration/broker_access/test_logins.py",
    "tests/integration/broker_access/test_topics.py",
    "tests/integration/ingest/test_end_to_end.py",
    "tests/integration/test_doctor.py",
    "tests/integration/test_simulate.py",
}
"""Files whose tests share `stack`; one that is missing here makes a worker start a whole service more."""
USE_VICTIM = {
    "tests/faults/test_commands.py",
    "tests/faults/test_kills.py",
    "tests/faults/test_partner.py",
    "tests/faults/test_telemetry_campaign.py",
}
"""Files whose tests share `victim` of tests/faults/conftest.py."""


class ByServers(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that share servers run in one worker: those of a file, and those of the files that use the same whole service."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "stack" if path in USE_STACK else "victim" if path in USE_VICTIM else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers:
    """How tests are spread over the workers of `-n`."""
    return ByServers(config, log)


# As the service logs: structlog's default shows the variables of each frame, which takes seconds for a batch of messages.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

# A run that is told to end takes its servers along.
signal.signal(signal.SIGTERM, signal.default_int_handler)

_stop_noting = note_what_clients_see(SEARCH)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Searches what a test's own process logged, which pytest has captured."""
    report = yield
    for name, text in report.sections:
        if "stderr" in name or "log" in name:
            SEARCH.search(text.splitlines(), f"{item.nodeid} ({name})")
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a session in which a secret was logged; a worker tells the session that started it."""
    _stop_noting()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["secrets"] = SEARCH.findings
    elif SEARCH.findings and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a worker found."""
    SEARCH.findings += getattr(node, "workeroutput", {}).get("secrets", [])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names the places."""
    if SEARCH.findings:
        terminalreporter.section("secrets in logs", red=True)
        for finding in SEARCH.findings:
            terminalreporter.write_line(finding)


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home folder with a short path, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-test-"))
    yield folder
    SEARCH.search_home(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A running server whose database `gridfleet` is migrated and stays empty: the template of each test's own database."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-pg-"))
    server = EmbeddedPostgres(folder, {"fsync": "off", "shared_buffers": "64MB"})
    try:
        url = server.start()
        migrate(url)
        yield url
    finally:
        server.stop()
        SEARCH.search_home(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database_url(postgres_url: str) -> Iterator[str]:
    """Connection string of a database of the test's own, with the newest schema."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE gridfleet")
        yield postgres_url.replace("/gridfleet?", f"/{name}?")
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The test's own database behind a pool, as the processes use it."""
    async with open_database(database_url, name="test", size=5) as opened:
        yield opened


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerNode]:
    """A private node on free ports; only the service account can log in by itself."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-mq-"))
    settings = settings_at(folder)
    ensure_local_secrets(folder)
    authority = Authority.create()
    write_server_certificate(folder / "ca", authority, ["localhost", "127.0.0.1"])
    node = PrivateBroker(settings)
    try:
        url = node.start()
        yield BrokerNode(settings, authority, url, node.management_url)
    finally:
        node.stop()
        SEARCH.search_home(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def expo() -> Iterator[ExpoServer]:
    """The push service of `stack`."""
    with expo_server() as server:
        yield server


@pytest.fixture(scope="session")
def stack(expo: ExpoServer) -> Iterator[RunningStack]:
    """The whole service on free ports, started by `gridfleet up` in a home of its own."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-up-"))
    running = RunningStack(folder, {"expo_url": expo.url})
    try:
        yield running.start()
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def fleet(stack: RunningStack) -> Iterator[Fleet]:
    """An organisation of the tests' own at the whole service."""
    found = Fleet(stack)
    try:
        yield found
    finally:
        found.close()
