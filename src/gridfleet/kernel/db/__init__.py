"""PostgreSQL: connection pool, unit of work, migrations. Only this package and `store.py` files contain SQL."""

from typing import Final

from psycopg import DataError, IntegrityError
from psycopg import Error as DatabaseError
from psycopg.errors import DatatypeMismatch, ProgramLimitExceeded, StatementTooComplex

from gridfleet.kernel.db.pool import Connection, Database, after_commit, open_database

__all__ = ["UNSTORABLE", "Connection", "Database", "DatabaseError", "after_commit", "open_database", "storable"]

UNSTORABLE: Final = (DataError, IntegrityError, DatatypeMismatch, ProgramLimitExceeded, StatementTooComplex)
"""Errors about content that the database refuses on every attempt.

`DatatypeMismatch` is a value of a type that its column does not take, `ProgramLimitExceeded` a value too long for an index,
`StatementTooComplex` JSON nested too deeply. Any other error concerns the database itself.
"""


def storable(text: str) -> str:
    """Return the text in a form that PostgreSQL stores: NUL and lone surrogates are replaced."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
