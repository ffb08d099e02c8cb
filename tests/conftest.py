"""Shared fixtures: a real PostgreSQL for the session, a fresh migrated database for each test that asks for one."""

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.embedded import EmbeddedPostgres
from gridfleet.kernel.db.migrate import migrate

_numbers = itertools.count(1)


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home folder with a short path, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-test-"))
    yield folder
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
