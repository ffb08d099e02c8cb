"""What a database server says of itself, asked over one connection beside the pool."""

from datetime import datetime
from typing import NamedTuple

import psycopg

__all__ = ["ServerFacts", "inspect_server"]


class ServerFacts(NamedTuple):
    """`version` like 170002; `now`: its clock, asked last."""

    version: int
    version_text: str
    fsync: bool
    synchronous: bool
    connections: int
    max_connections: int
    now: datetime


def inspect_server(url: str) -> ServerFacts:
    """The facts about the server of the database at `url`. Raises psycopg errors, within five seconds when it is away."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="gridfleet-doctor") as connection:
        row = connection.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
            " current_setting('fsync')::bool AND current_setting('full_page_writes')::bool,"
            " current_setting('synchronous_commit') <> 'off',"
            " (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),"
            " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        ).fetchone()
        now = connection.execute("SELECT clock_timestamp()").fetchone()
    if row is None or now is None:
        raise LookupError("a query without FROM answered no row")
    return ServerFacts(*row, *now)
