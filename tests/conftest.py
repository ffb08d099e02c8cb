"""Shared fixtures: real servers, started once per session and always stopped.

`database`: a fresh migrated PostgreSQL database for each test. `broker`: a private RabbitMQ node without the service.
`stack`: the whole service, as `gridfleet up` runs it.
"""

import contextlib
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import structlog
from httpx._config import DEFAULT_TIMEOUT_CONFIG

from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.security.certificates import Authority
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.local.secrets import ensure_local_secrets
from support.clients.fleet_under_test import Fleet
from support.figures import Figure, figure_of, report_figures
from support.servers.broker_node import BrokerNode
from support.servers.citus import CitusCluster, citus_cluster, citus_programs
from support.servers.distribution import ByServers, longest_first, unlisted_server
from support.servers.expo_server import ExpoServer, expo_server
from support.servers.free_ports import settings_at
from support.servers.running_stack import RunningStack, running_stack
from support.servers.secrets_in_logs import SEARCH, note_what_clients_see

# A deadline measures the machine: examples take seconds while other programs use its cores.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# HTTP clients verify certificates against this folder, which holds none. Reading the usual authorities takes each client and
# each process 40 ms of CPU.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# A busy machine responds late, which is no defect. The clients of the service have times of their own.
DEFAULT_TIMEOUT_CONFIG.connect = DEFAULT_TIMEOUT_CONFIG.read = 60

_numbers = itertools.count(1)
_LONG = [Path(__file__).parent / folder for folder in ("faults", "scale")]


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a file that uses a shared server and is not listed: its worker would start a second one. Order the others.

    The long tests in `faults` and `scale` run only with `-m faults`, as `make faults` does; the short ones with all others.
    """
    missing = {f"{found[0]}: {found[1]}" for item in items if (found := unlisted_server(item)) is not None}
    if missing:
        raise pytest.UsageError(f"tests/support/servers/distribution.py lacks {', '.join(sorted(missing))}")
    longest_first(items)
    for item in items if config.option.citus else []:
        if (marker := item.get_closest_marker("local_tables")) is not None:
            item.add_marker(pytest.mark.skip(reason=marker.kwargs["reason"]))
    if "faults" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("faults") and item.path.parent in _LONG]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make faults`."""
    parser.addoption("--figures", type=Path, help="file for what the tests measure, beside their goals")
    parser.addoption("--citus", action="store_true", help="distribute the telemetry of each test's database with Citus")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers:
    """Return the scheduler that distributes tests over the workers of `-n`."""
    return ByServers(config, log)


# As the service logs: structlog's default prints the variables of each frame, which takes seconds for a batch of messages.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

# A terminated test run must stop its servers.
signal.signal(signal.SIGTERM, signal.default_int_handler)

_stop_noting = note_what_clients_see(SEARCH)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Search the captured log output of a test's own process for secrets."""
    report = yield
    for name, text in report.sections:
        if "stderr" in name or "log" in name:
            SEARCH.search(text.splitlines(), f"{item.nodeid} ({name})")
    return report


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects tests
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session in which a secret was logged. A worker passes its findings to the main session."""
    _stop_noting()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["secrets"] = SEARCH.findings
    elif SEARCH.findings and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the findings of a worker."""
    SEARCH.findings += getattr(node, "workeroutput", {}).get("secrets", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the findings, and what the tests have measured."""
    reports = (one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, ()))
    report_figures(reports, config.getoption("figures"))
    if SEARCH.findings:
        terminalreporter.section("secrets in logs", red=True)
        for finding in SEARCH.findings:
            terminalreporter.write_line(finding)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Return a function that notes what the test measures, with its goal."""
    return figure_of(record_property)


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield an empty home folder with a short path. It is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-test-"))
    yield folder
    SEARCH.search_home(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """Return a folder in memory if it has room. A copy of the template takes a third of the time there."""
    folder = Path("/dev/shm")
    return str(folder) if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 4 << 30 else None


@pytest.fixture(scope="session")
def citus_template(pytestconfig: pytest.Config) -> Iterator[CitusCluster | None]:
    """Run a cluster with the distributed database `gridfleet` if the run has the option; None otherwise."""
    if not pytestconfig.getoption("--citus"):
        yield None
        return
    programs = citus_programs()
    if programs is None:
        pytest.skip("PostgreSQL with Citus is not installed")
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-citus-", dir=_memory()))
    try:
        with citus_cluster(folder, programs) as cluster:
            cluster.distribute(cluster.create("gridfleet"))
            cluster.freeze("gridfleet")
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Run a server with the database `gridfleet`, migrated and empty: the template of each test's own database."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-pg-", dir=_memory()))
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
def database_url(request: pytest.FixtureRequest, citus_template: CitusCluster | None) -> Iterator[str]:
    """Yield the connection string of the test's own database with the newest schema."""
    name = f"test_{next(_numbers)}"
    if citus_template is not None:
        yield citus_template.copy("gridfleet", name)
        citus_template.drop(name)
        return
    postgres_url = request.getfixturevalue("postgres_url")
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE gridfleet STRATEGY FILE_COPY")
        yield postgres_url.replace("/gridfleet?", f"/{name}?")
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Yield a pool of connections to the test's own database, as the processes use it."""
    async with open_database(database_url, name="test", size=5) as opened:
        yield opened


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerNode]:
    """Run a private node on free ports. Without a listener for access requests only the service account can log in."""
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
    """Run the push service of `stack`."""
    with expo_server() as server:
        yield server


@pytest.fixture(scope="session")
def stack(expo: ExpoServer) -> Iterator[RunningStack]:
    """Run the whole service on free ports with `gridfleet up` in its own home folder."""
    with running_stack("up", {"expo_url": expo.url}) as running:
        yield running


@pytest.fixture(scope="session")
def fleet(stack: RunningStack) -> Iterator[Fleet]:
    """Yield an organisation for tests at the whole service."""
    with contextlib.closing(Fleet(stack)) as found:
        yield found
