"""Alembic's entry: runs the revisions over one psycopg connection, under an advisory lock.

A migration that cannot get a table's lock within a second fails and is tried again by the next start, instead of queueing
every other statement behind itself.
"""

import time
from functools import partial
from typing import Final

import psycopg
import structlog
from alembic import context
from sqlalchemy import Connection, create_engine, pool, text

from gridfleet.kernel.db.pool import LET_THE_SERVER_NOTICE, NOTICE_A_DEAD_MACHINE

log = structlog.get_logger(__name__)

_LOCK: Final = 7_102_202_601
_SECONDS_BETWEEN_TRIES: Final = 1.0


def _run() -> None:
    url: str = context.config.attributes["url"]
    # The URL goes to libpq as it is: SQLAlchemy's own parser does not know every form that PostgreSQL accepts.
    # Without the options, a server keeps the lock of a machine that has vanished for two hours.
    connect = partial(psycopg.connect, url, options=LET_THE_SERVER_NOTICE, **NOTICE_A_DEAD_MACHINE)
    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=pool.NullPool)
    with engine.connect() as connection:
        _wait_for_lock(connection)
        try:
            connection.execute(text("SET lock_timeout = '1s'"))
            connection.commit()
            context.configure(connection=connection, target_metadata=None, transaction_per_migration=True)
            with context.begin_transaction():
                context.run_migrations()
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
            connection.commit()


def _wait_for_lock(connection: Connection) -> None:
    """Take the advisory lock of migrations, without a snapshot while another process has it.

    `SELECT pg_advisory_lock` would keep its snapshot while it waits. CREATE INDEX CONCURRENTLY waits for the end of older
    snapshots, so the process that migrates would wait for the one that waits for it: "deadlock detected".
    """
    waits = False
    while not connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one():
        connection.rollback()
        if not waits:
            waits = True
            log.info("another process migrates the database; waiting for it")
        time.sleep(_SECONDS_BETWEEN_TRIES)
    connection.commit()


_run()
