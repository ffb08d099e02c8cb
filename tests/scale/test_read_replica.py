"""`GRIDFLEET_DATABASE_READ_URL`: history comes from a replica while it is recent, and from the primary otherwise."""

import asyncio
import re
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
import pytest

from gridfleet.cli.doctor import examination
from gridfleet.cli.doctor.database import check_database, standby_finding
from gridfleet.cli.doctor.models import Finding
from gridfleet.domains.telemetry.history import raw
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.inspection import inspect_server
from gridfleet.kernel.db.migrate import migrate
from gridfleet.protocol.envelope import format_time
from support.builders.accounts import add_member, add_user, session_of
from support.builders.telemetry_records import RecordedPlant, allowed
from support.clients.fleet_under_test import wait_for
from support.servers.api_process import KEYS, api_process
from support.servers.api_service import ApiService, api_service, bearer
from support.servers.free_ports import free_ports
from support.servers.replication import Replication, execute, replication, value
from support.servers.running_task import running

LIMIT_SECONDS = 3.0
RESULTS = ("replica", "repeated", "primary")
MINUTE = timedelta(minutes=1)
DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)


@pytest.fixture(scope="module")
def servers() -> Iterator[Replication]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-replica-"))
    try:
        with replication(folder, synchronous=False) as running:
            migrate(running.primary.url)
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Site:
    """A service with a replica, and a plant that its reader may see."""

    servers: Replication
    service: ApiService
    plant: RecordedPlant
    headers: dict[str, str]

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: str) -> httpx.Response:
        """Return the response to the reader."""
        return await self.service.client.get(f"/api/v1{path}", params=query, headers={**self.headers, **(headers or {})})

    async def history(self, headers: Mapping[str, str] | None = None, **query: str) -> httpx.Response:
        """Return the plant's history of `DAY`."""
        day = {"plantId": str(self.plant.id), "from": format_time(DAY), "to": format_time(DAY + timedelta(days=1))}
        return await self.get("/telemetry", headers, **{**day, **query})

    async def values(self) -> list[float]:
        """Return the values of the plant's history."""
        return [point["value"] for point in (await self.history()).json()]

    async def is_used(self, used: bool = True) -> None:
        """Return once reads go to the replica, or to the primary."""
        replica = self.service.state.history_reads.replica
        assert replica is not None
        await until(lambda: replica.usable == used)

    async def replayed(self) -> None:
        """Return once the replica has applied everything that is committed."""
        self.replay("resume")
        written = value(self.servers.primary.url, "SELECT pg_current_wal_lsn()")
        query = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        await until(lambda: value(self.servers.standby.url, query) is True)

    def replay(self, action: str) -> None:
        """Let the replica `pause` or `resume` to apply what it receives."""
        execute(self.servers.standby.url, f"SELECT pg_wal_replay_{action}()")


@asynccontextmanager
async def opened(servers: Replication, home: Path, read_url: str | None = None) -> AsyncIterator[Site]:
    """Run the service until the end of the block, once it uses the replica or has found that it cannot."""
    replica = {"database_read_url": read_url or servers.standby.url, "database_read_lag_seconds": LIMIT_SECONDS}
    async with api_service(servers.primary.url, home, keys=KEYS, **replica) as service:
        state = service.state
        plant = await RecordedPlant.create(state.database)
        user = await add_user(state.database)
        await add_member(state.database, plant.organization_id, user.id, OrgRole.VIEWER)
        token = await session_of(state.database, state.access_tokens, user)
        headers = bearer(token) | {"x-org-id": str(plant.organization_id)}
        assert state.history_reads.replica is not None
        async with running(state.history_reads.replica.keep_measuring()):
            yield Site(servers, service, plant, headers)


@pytest.fixture
async def site(servers: Replication, home: Path) -> AsyncIterator[Site]:
    async with opened(servers, home) as found:
        await found.is_used()
        try:
            yield found
        finally:
            found.replay("resume")


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Return once the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)


def reads(result: str) -> float:
    """Return how many reads of history had this result."""
    return metrics.HISTORY_READS.labels(result).collect()[0].samples[0].value


@contextmanager
def all_reads(result: str) -> Iterator[None]:
    """Fail unless the reads of the block have this result, and there are some."""
    before = {name: reads(name) for name in RESULTS}
    yield
    assert {name for name in RESULTS if reads(name) > before[name]} == {result}


async def test_all_forms_of_history_are_equal_at_the_replica(site: Site) -> None:
    await site.plant.add_device("PV1")
    times = [DAY + number * MINUTE for number in range(600)]
    await site.plant.write("PV1", ["p", "e"], {at: [float(number), number / 7] for number, at in enumerate(times)})
    await site.plant.write(None, ["f"], {at: [50.0] for at in times[::10]})
    await roll_up(site.plant.database)
    await site.replayed()
    day = {"from": format_time(DAY), "to": format_time(DAY + timedelta(days=1))}

    async def answers() -> list[bytes]:
        asked = [
            await site.history(),
            await site.history(metric="PV1.p"),
            await site.history(bucket="1 hour"),
            await site.history({"accept": "text/csv"}),
            await site.history({"accept": "application/x-ndjson"}, bucket="5 minutes"),
            await site.get(f"/plants/{site.plant.id}/sub-devices/PV1/telemetry", **day),
            await site.get("/telemetry/columns", plantId=str(site.plant.id), metrics="PV1.p", points="100", **day),
        ]
        assert [answer.status_code for answer in asked] == [200] * len(asked)
        return [answer.content for answer in asked]

    with all_reads("replica"):
        copied = await answers()
    site.servers.standby.stop()
    await site.is_used(False)
    with all_reads("primary"):
        assert await answers() == copied
    assert min(map(len, copied)) > 1_000
    site.servers.standby.start()
    await site.is_used()
    with all_reads("replica"):
        assert await answers() == copied


async def test_a_replica_beyond_the_limit_is_not_read(site: Site) -> None:
    await site.plant.write(None, ["a"], {DAY: [1.0]})
    await site.replayed()
    site.replay("pause")
    await site.plant.write(None, ["a"], {DAY + MINUTE: [2.0]})
    with all_reads("replica"):
        assert await site.values() == [1.0]  # within the limit, the newest values may be missing
    await site.is_used(False)
    with all_reads("primary"):
        assert await site.values() == [1.0, 2.0]
    assert metrics.DATABASE_REPLICA_LAG_SECONDS.collect()[0].samples[0].value > LIMIT_SECONDS
    site.replay("resume")
    await site.is_used()
    with all_reads("replica"):
        assert await site.values() == [1.0, 2.0]


async def test_the_replica_of_an_idle_primary_is_recent(site: Site) -> None:
    """The time of the last transaction that it has applied is long ago then."""
    await site.replayed()
    await asyncio.sleep(2 * LIMIT_SECONDS)
    with all_reads("replica"):
        await site.values()


async def test_access_and_newest_values_come_from_the_primary(site: Site) -> None:
    await site.replayed()
    site.replay("pause")
    await site.plant.add_device("PV1")
    now = datetime.now(UTC).replace(microsecond=0)
    await site.plant.write(None, ["a"], {now: [7.0]})
    latest = (await site.get(f"/telemetry/{site.plant.id}/latest")).json()
    assert [point["value"] for point in latest] == [7.0]
    assert (await site.get(f"/plants/{site.plant.id}/sub-devices/PV1")).status_code == 200
    day = {"from": format_time(DAY), "to": format_time(DAY + timedelta(days=1))}
    with all_reads("replica"):
        answer = await site.get(f"/plants/{site.plant.id}/sub-devices/PV1/telemetry", **day)
        assert (answer.status_code, answer.json()) == (200, [])  # the device is at the primary only
        assert (await site.history()).status_code == 200
    async with site.plant.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (site.plant.id,))
    assert (await site.history()).json()["code"] == "PLANT_NOT_FOUND"


Failure = Callable[[Replication, Connection], Awaitable[object]]


async def conflict(servers: Replication, db: Connection) -> None:
    execute(servers.standby.url, "ALTER SYSTEM SET max_standby_streaming_delay = 0")
    execute(servers.standby.url, "SELECT pg_reload_conf()")
    await db.execute("SELECT count(*) FROM conflicting")
    execute(servers.primary.url, "DROP TABLE conflicting")
    try:
        await db.execute("SELECT pg_sleep(60)")
    finally:
        execute(servers.standby.url, "ALTER SYSTEM RESET max_standby_streaming_delay")
        execute(servers.standby.url, "SELECT pg_reload_conf()")


async def cancelled(servers: Replication, db: Connection) -> None:
    waiting = asyncio.create_task(db.execute("SELECT pg_sleep(60)"))
    await asyncio.sleep(0.5)
    execute(servers.standby.url, f"SELECT pg_cancel_backend({db.info.backend_pid})")
    await waiting


async def read_only(servers: Replication, db: Connection) -> None:
    await db.execute("CREATE TABLE impossible ()")


async def lost(servers: Replication, db: Connection) -> None:
    execute(servers.standby.url, f"SELECT pg_terminate_backend({db.info.backend_pid})")
    await db.execute("SELECT 1")


@pytest.mark.parametrize("failure", [conflict, cancelled, read_only, lost])
async def test_a_read_that_fails_at_the_replica_is_repeated_at_the_primary_once(site: Site, failure: Failure) -> None:
    execute(site.servers.primary.url, "CREATE TABLE IF NOT EXISTS conflicting ()")
    await site.replayed()
    ran: list[bool] = []

    async def check(db: Connection) -> None:
        assert not await at_replica(db)

    async def read(db: Connection) -> str:
        ran.append(await at_replica(db))
        if ran[-1]:
            await failure(site.servers, db)
        return "found"

    with all_reads("repeated"):
        assert await site.service.state.history_reads.of(site.plant.org)(check, read) == "found"
    assert ran == [True, False]


async def at_replica(db: Connection) -> bool:
    row = await (await db.execute("SELECT pg_is_in_recovery()")).fetchone()
    return row == (True,)


async def test_a_response_is_complete_when_the_replica_ends_between_its_pages(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "PAGE_POINTS", 100)
    await site.plant.write(None, ["a"], {DAY + number * MINUTE: [float(number)] for number in range(1_000)})
    await site.replayed()
    query = HistoryQuery(site.plant.id, DAY, DAY + timedelta(days=1), "a")
    history = await open_history(site.service.state.history_reads.of(site.plant.org), site.plant.org, query, capped=False)
    before = {result: reads(result) for result in RESULTS}
    writer = PointWriter(site.plant.id, TextFormat.NDJSON)
    lines, pages = 0, 0
    async for page in history.pages(allowed):
        lines += b"".join(writer.pieces(page)).count(b"\n")
        pages += 1
        if pages == 3:
            await asyncio.to_thread(site.servers.standby.stop)
    site.servers.standby.start()
    assert lines == 1_000
    assert reads("replica") > before["replica"]
    assert reads("primary") + reads("repeated") > before["primary"] + before["repeated"]


async def test_an_error_at_both_is_raised(site: Site) -> None:
    async def fail(db: Connection) -> None:
        await db.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await site.service.state.history_reads.of(site.plant.org)(at_replica, fail)


async def test_a_database_that_is_no_replica_is_not_read(servers: Replication, home: Path, database_url: str) -> None:
    async with opened(servers, home, database_url) as site:
        await asyncio.sleep(LIMIT_SECONDS)
        with all_reads("primary"):
            assert await site.values() == []


async def test_doctor_names_the_replica_and_its_lag(site: Site) -> None:
    found = await by_check(site)
    assert (found["read replica"].status, found["read replica"].found[:6]) == ("ok", "lags 0")
    assert "on one disk" in found["database standbys"].found
    assert {found["database standbys"].status} == {"warn"}
    site.replay("pause")
    await site.plant.write(None, ["a"], {DAY: [1.0]})
    lagging = (await by_check(site))["read replica"]
    assert (lagging.status, lagging.found) == ("warn", "lags more than 3 s: history is read from the primary")
    site.replay("resume")
    site.servers.standby.stop()
    away = (await by_check(site))["read replica"]
    site.servers.standby.start()
    assert away.status == "warn"
    assert "does not respond" in away.found


async def by_check(site: Site) -> dict[str, Finding]:
    found = await check_database(examination(site.service.state.settings))
    return {finding.check: finding for finding in found}


@pytest.mark.parametrize(
    ("names", "status", "words"),
    [
        ("standby", "ok", "a commit waits for standby"),
        ("FIRST 1 (standby, other)", "warn", "1 of the 2 in FIRST 1 (standby, other) are connected"),
        ("ANY 2 (standby, other)", "fail", "1 of the 2 for ANY 2 (standby, other) is connected"),
        ("other", "fail", "none of other is connected"),
    ],
)
def test_doctor_reports_synchronous_standbys(servers: Replication, names: str, status: str, words: str) -> None:
    execute(servers.primary.url, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    execute(servers.primary.url, "SELECT pg_reload_conf()")
    try:
        time.sleep(0.5)
        finding = standby_finding(inspect_server(servers.primary.url))
    finally:
        execute(servers.primary.url, "ALTER SYSTEM RESET synchronous_standby_names")
        execute(servers.primary.url, "SELECT pg_reload_conf()")
    assert (finding.status, finding.found) == (status, words)


def test_a_role_that_may_not_see_standbys_gets_no_warning(servers: Replication) -> None:
    execute(servers.primary.url, "CREATE ROLE running LOGIN")
    facts = inspect_server(servers.primary.url.replace("gridfleet@", "running@"))
    assert facts.standbys == [None]
    assert standby_finding(facts._replace(wanted_standbys="standby")).status == "ok"


def test_serve_measures_the_lag(servers: Replication, home: Path) -> None:
    [port] = free_ports(1)
    replica = {"database_read_url": servers.standby.url, "internal_port": port}
    with api_process(servers.primary.url, home, **replica):

        def measured() -> bool:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
            [lag] = re.findall(r"^gridfleet_database_replica_lag_seconds (.+)$", text, re.MULTILINE)
            return 0 < float(lag) < LIMIT_SECONDS and 'pool="replica"' in text

        wait_for(measured)


async def test_a_promoted_replica_is_not_read(home: Path) -> None:
    with replication(home / "servers", synchronous=False) as servers:
        migrate(servers.primary.url)
        async with opened(servers, home) as site:
            await site.is_used()
            await site.plant.write(None, ["a"], {DAY: [1.0]})
            await site.replayed()
            execute(servers.standby.url, "SELECT pg_promote()")
            await site.plant.write(None, ["a"], {DAY + MINUTE: [2.0]})
            before = reads("replica")
            assert await site.values() == [1.0, 2.0]
            await site.is_used(False)
            assert await site.values() == [1.0, 2.0]
            assert reads("replica") == before
