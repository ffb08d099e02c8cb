"""Let Citus distribute large tables over workers: plan the statements that are left to do. `scale_out.apply` executes them.

All rows of a source are on one shard. The tables that refer to sources stay on the coordinator, with their foreign keys.
While a table is moved, it has another name, and its partitions follow one by one, as for TimescaleDB.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg

from gridfleet.kernel.db.scale_out import CannotScaleOut, Extension, Hypertable, Plan, Step, check_installed, check_owner, fetch

__all__ = ["examine", "plan"]

_OLDEST_VERSION: Final = (13, 0)
"""The oldest one that the tests ran with is 13.2."""
_CONNECTIONS: Final = "citus.max_cached_conns_per_worker"
_FUNCTIONS: Final = ("telemetry_merge(float8[], float8[])",)
"""Functions that statements execute on workers. Citus copies by itself those that are created after the extension."""

_TOGETHER: Final = """
CREATE OR REPLACE FUNCTION keep_sources_together() RETURNS trigger LANGUAGE plpgsql AS $$
-- Give a new source an id whose shard is that of the plant's first source, so that a plant's history is on one shard.
DECLARE
    sibling integer;
    shard bigint;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
        RETURN NEW;  -- a dump was restored without the extension
    END IF;
    IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'telemetry_frame'::regclass) THEN
        RETURN NEW;
    END IF;
    SELECT id INTO sibling FROM telemetry_source WHERE plant_id = NEW.plant_id ORDER BY id LIMIT 1;
    IF sibling IS NULL THEN
        RETURN NEW;
    END IF;
    shard := get_shard_id_for_distribution_column('telemetry_frame'::regclass, sibling);
    FOR attempt IN 1..1000 LOOP
        EXIT WHEN get_shard_id_for_distribution_column('telemetry_frame'::regclass, NEW.id) = shard;
        NEW.id := nextval(pg_get_serial_sequence('telemetry_source', 'id'));
    END LOOP;
    RETURN NEW;
END $$"""
_TRIGGER: Final = "keep_sources_together"


def plan(url: str, tables: Sequence[Hypertable]) -> Plan:
    """Return the steps to run; none if they have run already.

    Raises:
        CannotScaleOut: Citus is too old or not in the database, has no worker, or a worker cannot take shards; the role does
            not own the schema; or another extension partitions the tables.
        psycopg.Error: The database does not respond.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        check_installed(connection, Extension.CITUS, _OLDEST_VERSION)
        check_owner(connection)
        workers = _check_workers(connection)
        return Plan(list(_steps(connection, tables, workers)))


def examine(url: str, tables: Sequence[Hypertable]) -> int | None:
    """Return the number of workers that have the tables; None if no table is distributed.

    Raises:
        CannotScaleOut: Only some tables are distributed, or a worker cannot be used.
        psycopg.Error: The database does not respond.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        if fetch(connection, "SELECT to_regclass('pg_catalog.pg_dist_partition')") is None:
            return None
        done = [_is_distributed(connection, table.name) for table in tables]
        if not any(done) and not any(_is_distributed(connection, table.after) for table in tables):
            return None
        if not all(done):
            raise CannotScaleOut("only some of the tables are distributed: stop the processes, and run the command again")
        return _check_workers(connection)


def _check_workers(connection: psycopg.Connection) -> int:
    rows = connection.execute(
        "SELECT nodename || ':' || nodeport, groupid = 0 FROM pg_dist_node"
        " WHERE noderole = 'primary' AND isactive AND shouldhaveshards ORDER BY groupid"
    ).fetchall()
    if any(is_coordinator for _, is_coordinator in rows):
        raise CannotScaleOut("the coordinator has shards: set its property shouldhaveshards to false (citus_set_node_property)")
    if not rows:
        raise CannotScaleOut("Citus has no worker: add each one with citus_add_node, as docs/deployment.md says")
    for name, success, result in connection.execute(
        "SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers('SHOW max_prepared_transactions')"
    ).fetchall():
        if not success:
            raise CannotScaleOut(f"worker {name} does not execute statements of this role: {result}")
        if result == "0":
            raise CannotScaleOut(f"worker {name} has max_prepared_transactions = 0: set it to its max_connections")
    return len(rows)


def _steps(connection: psycopg.Connection, tables: Sequence[Hypertable], workers: int) -> Iterator[Step]:
    missing = [name for name in _FUNCTIONS if not _is_on_workers(connection, name)]
    if missing:
        yield Step(
            "create functions on the workers", tuple(f"SELECT create_distributed_function('{name}')" for name in missing)
        )
    for number, table in enumerate(tables):
        yield from _table_steps(connection, table, tables[0] if number else None)
    if not fetch(connection, "SELECT true FROM pg_trigger WHERE tgname = %s", _TRIGGER):
        trigger = f"CREATE TRIGGER {_TRIGGER} BEFORE INSERT ON telemetry_source FOR EACH ROW EXECUTE FUNCTION {_TRIGGER}()"
        local = "SET LOCAL citus.enable_ddl_propagation = off"
        yield Step("give new sources of a plant the shard of its first one", (local, _TOGETHER, trigger))
    shards = int(fetch(connection, "SELECT current_setting('citus.shard_count')"))
    wanted = -(-shards // workers)
    database = fetch(connection, "SELECT quote_ident(current_database())")
    if int(fetch(connection, f"SELECT current_setting('{_CONNECTIONS}')")) < wanted:
        # A batch uses one connection for each shard. Opening them again takes longer than the batch itself.
        yield Step("keep connections to the workers open", (f"ALTER DATABASE {database} SET {_CONNECTIONS} = {wanted}",))


def _table_steps(connection: psycopg.Connection, table: Hypertable, first: Hypertable | None) -> Iterator[Step]:
    if _is_distributed(connection, table.name):
        return
    if not _is_distributed(connection, table.after):
        if fetch(connection, "SELECT relkind <> 'p' FROM pg_class WHERE oid = to_regclass(%s)", table.name):
            raise CannotScaleOut(f"another extension partitions {table.name}")
        yield _creation(connection, table, first)
    for name in _partitions(connection, table):
        start, end = table.bounds(name)
        yield Step(
            f"move {name} to the workers",
            (
                f"ALTER TABLE {table.after} ATTACH PARTITION {name} FOR VALUES FROM ('{start}') TO ('{end}')",
                f"SELECT truncate_local_data_after_distributing_table('{name}')",
            ),
        )
    yield Step(f"use the distributed {table.name}", (f"ALTER TABLE {table.after} RENAME TO {table.name}",))


def _creation(connection: psycopg.Connection, table: Hypertable, first: Hypertable | None) -> Step:
    colocated = "none" if first is None else first.name
    return Step(
        f"set the partitions of {table.name} aside, and distribute the empty table",
        (
            f"ALTER TABLE {table.name} RENAME TO {table.after}",
            *(f"ALTER TABLE {table.after} DETACH PARTITION {name}" for name in _partitions(connection, table)),
            f"SELECT create_distributed_table('{table.after}', '{table.series}', colocate_with => '{colocated}')",
        ),
    )


def _partitions(connection: psycopg.Connection, table: Hypertable) -> list[str]:
    """Return the names of the partitions that are not on the workers, oldest first."""
    rows = connection.execute(
        "SELECT relname FROM pg_class c WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        " AND relname ~ %s AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid) ORDER BY 1",
        (rf"^{table.name}_\d{{8}}$",),
    )
    return [row[0] for row in rows.fetchall()]


def _is_distributed(connection: psycopg.Connection, name: str) -> bool:
    query = "SELECT true FROM pg_dist_partition WHERE logicalrelid = to_regclass(%s)"
    return fetch(connection, query, name) is True


def _is_on_workers(connection: psycopg.Connection, function: str) -> bool:
    query = "SELECT true FROM pg_catalog.pg_dist_object WHERE classid = 'pg_proc'::regclass AND objid = to_regprocedure(%s)"
    found: Any = fetch(connection, query, function)
    return found is True
