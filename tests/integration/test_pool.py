"""The connection pool after its server went away and came back."""

import asyncio
import gc
import itertools
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.pool import TidyConnection


async def test_connections_that_broke_while_idle_delay_no_caller(database_url: str) -> None:
    async with open_database(database_url, name="pooled", size=8) as database:

        async def use() -> None:
            async with database.transaction() as db:
                await db.execute("SELECT pg_sleep(0.2)")

        while database.statistics()["pool_available"] < 8:
            await asyncio.gather(*(use() for _ in range(8)))
        async with open_database(database_url, name="other", size=1) as other, other.transaction() as db:
            cursor = await db.execute(
                "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity"
                " WHERE application_name = 'pooled' AND datname = current_database()"
            )
            assert await cursor.fetchone() == (8,)

        began = time.monotonic()
        for _ in range(3):
            await use()
        await asyncio.gather(*(use() for _ in range(8)))
        assert time.monotonic() - began < 3


async def test_the_connection_that_was_returned_last_is_lent_first(database_url: str) -> None:
    async with open_database(database_url, name="pooled", size=4) as database:

        async def process_id() -> int:
            async with database.transaction() as db:
                await db.execute("SELECT pg_sleep(0.1)")
                return db.info.backend_pid

        while database.statistics()["pool_available"] < 4:
            await asyncio.gather(*(process_id() for _ in range(4)))
        assert len({await process_id() for _ in range(6)}) == 1
        assert len(set(await asyncio.gather(*(process_id() for _ in range(4))))) == 4


async def test_attempts_that_time_out_leave_no_socket_until_the_garbage_collector_comes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://gridfleet@127.0.0.1:{mute.getsockname()[1]}/x"

        async def attempt() -> None:
            with pytest.raises(psycopg.errors.ConnectionTimeout):
                await TidyConnection.connect(url, connect_timeout=2)

        gc.collect()
        before = psutil.Process().num_fds()
        gc.disable()
        try:
            await asyncio.gather(*(attempt() for _ in range(8)))
            assert psutil.Process().num_fds() < before + 8
        finally:
            gc.enable()


@asynccontextmanager
async def by_tcp(database_url: str) -> AsyncIterator[str]:
    """The database's address over TCP, for one connection."""
    parts = conninfo_to_dict(database_url)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inward = await asyncio.open_unix_connection(f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}")
        await asyncio.gather(pass_on(reader, inward[1]), pass_on(inward[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield make_conninfo(database_url, host="127.0.0.1", port=server.sockets[0].getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name the options otherwise")
async def test_a_machine_that_vanishes_is_noticed_within_half_a_minute(database_url: str) -> None:
    """What was seen on a network that was cut: a query fails after 20 s, without these options not within two minutes."""
    async with (
        by_tcp(database_url) as url,
        open_database(url, name="keepalive", size=1) as database,
        database.transaction() as db,
    ):
        with socket.fromfd(db.fileno(), socket.AF_INET, socket.SOCK_STREAM) as link:
            assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


async def test_a_task_that_is_cancelled_as_it_gets_a_connection_stops(database_url: str) -> None:
    """Without it, a group of tasks that share a pool ends neither when it is stopped nor when one of them fails."""
    async with open_database(database_url, name="pooled", size=1) as database:
        ran: list[str] = []

        async def use() -> None:
            async with database.transaction():
                ran.append("ran")

        for steps in itertools.count():
            async with database.transaction():
                waiting = asyncio.create_task(use())
                while not database.statistics().get("requests_waiting"):
                    await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            if ran:
                break
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled(), f"continued after {steps} steps"
        assert steps > 0
        await waiting
