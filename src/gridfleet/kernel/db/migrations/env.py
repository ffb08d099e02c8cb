"""Alembic's entry: runs the revisions over one psycopg connection, under an advisory lock.

A migration that cannot get a table's lock within a second fails and is tried again by the next start, instead of queueing
every other statement behind itself.
"""

from functools import partial

import psycopg
from alembic import context
from sqlalchemy import create_engine, pool, text

from gridfleet.kernel.db.pool import NOTICE_A_DEAD_MACHINE

_LOCK = 7_102_202_601


def _run() -> None:
    url: str = context.config.attributes["url"]
    # The URL goes to libpq as it is: SQLAlchemy's own parser does not know every form that PostgreSQL accepts.
    engine = create_engine(
        "postgresql+psycopg://", creator=partial(psycopg.connect, url, **NOTICE_A_DEAD_MACHINE), poolclass=pool.NullPool
    )
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
        connection.commit()
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


_run()
