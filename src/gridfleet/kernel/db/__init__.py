"""PostgreSQL: the pool, the unit of work, migrations. Only this package and `store.py` files touch SQL."""

from typing import Final

from psycopg import DataError, IntegrityError
from psycopg import Error as DatabaseError
from psycopg.errors import ProgramLimitExceeded

from gridfleet.kernel.db.pool import Connection, Database, after_commit, open_database

__all__ = ["UNSTORABLE", "Connection", "Database", "DatabaseError", "after_commit", "open_database"]

UNSTORABLE: Final = (DataError, IntegrityError, ProgramLimitExceeded)
"""What the database says of a content that it will not have, however often it is tried; a value too long for an index is the
last. Any other error is about the database itself."""
