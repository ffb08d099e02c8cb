"""A database URL with several hosts: connections, migrations and `db check` use the one that accepts writes."""

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
import pytest

from gridfleet.kernel.db.migrate import head_revision, migrate, revision_at
from gridfleet.kernel.db.pool import open_database
from gridfleet.kernel.settings import Settings


@pytest.fixture
def two_hosts(database_url: str, tmp_path: Path) -> str:
    """The test's database behind a first host on which nothing listens."""
    parts = urlsplit(database_url)
    query = dict(parse_qsl(parts.query))
    query |= {"host": f"{tmp_path},{query['host']}", "target_session_attrs": "read-write"}
    return parts._replace(query=urlencode(query)).geturl()


async def test_the_second_host_is_used_when_the_first_does_not_answer(two_hosts: str) -> None:
    url = Settings(database_url=two_hosts).secret("database_url").get_secret_value()

    assert migrate(url) == revision_at(url) == head_revision()
    async with open_database(url, name="test", size=1) as database, database.transaction() as db:
        row = await (await db.execute("SELECT 1")).fetchone()
    assert row == (1,)


def test_a_host_that_refuses_writes_is_not_used(two_hosts: str) -> None:
    with psycopg.connect(two_hosts, autocommit=True) as db:
        name = db.info.dbname
        db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(psycopg.OperationalError, match="read-only"):
        revision_at(two_hosts)
