"""Facts about a database server, queried over one connection outside the pool."""

from datetime import datetime
from typing import NamedTuple

import psycopg

__all__ = ["ServerFacts", "inspect_server"]


class ServerFacts(NamedTuple):
    """`version` as in 170002. `now` is the server's clock, queried last.

    `wanted_standbys` is `synchronous_standby_names`, empty if commits are local. `standbys` has the state of each connected
    standby: `sync`, `quorum`, `potential` or `async`, or None if the role may not see it.
    """

    version: int
    version_text: str
    fsync: bool
    synchronous: bool
    connections: int
    max_connections: int
    wanted_standbys: str
    standbys: list[str | None]
    now: datetime


def inspect_server(url: str) -> ServerFacts:
    """Return the facts about the server of the database at `url`.

    Raises:
        psycopg.Error: The connection or a query failed. If the server does not respond, this takes five seconds for each host.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="gridfleet-doctor") as connection:
        row = connection.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
            " current_setting('fsync')::bool AND current_setting('full_page_writes')::bool,"
            " current_setting('synchronous_commit') <> 'off',"
            " (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),"
            " current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,"
            " CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply', 'remote_write')"
            " THEN current_setting('synchronous_standby_names') ELSE '' END,"
            " ARRAY(SELECT sync_state FROM pg_stat_replication)"
        ).fetchone()
        now = connection.execute("SELECT clock_timestamp()").fetchone()
    if row is None or now is None:
        raise LookupError("a query without FROM returned no row")
    return ServerFacts(*row, *now)
