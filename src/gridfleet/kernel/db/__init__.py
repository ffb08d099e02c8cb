"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""

from typing import Final

from psycopg import DataError, IntegrityError, InterfaceError, OperationalError
from psycopg import Error as DatabaseError
from psycopg.errors import ProgramLimitExceeded, StatementTooComplex

from gridfleet.kernel.db.pool import Connection, Database, after_commit, open_database

__all__ = ["UNSTORABLE", "Connection", "Database", "DatabaseError", "after_commit", "is_outage", "open_database"]

UNSTORABLE: Final = (DataError, IntegrityError, ProgramLimitExceeded, StatementTooComplex)
"""Errors about content that the database refuses however often it is tried: a value too long for an index is the third, JSON
nested too deeply the last. Any other error is about the database itself."""

_OUTAGE_STATES: Final = ("08", "53", "57P")
"""Beginnings of SQLSTATEs: the connection, the server's resources, its shutdown."""


def is_outage(error: Exception) -> bool:
    """Return whether the database is unavailable, so that no row or message is to blame for the error.

    A statement that took too long or met a lock is no outage: it may be the content that makes it slow.
    """
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_OUTAGE_STATES)
