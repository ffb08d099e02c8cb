"""PostgreSQL: connection pool, unit of work, migrations. Only this package and `store.py` files contain SQL."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from psycopg import DataError, IntegrityError
from psycopg import Error as DatabaseError
from psycopg.errors import DatatypeMismatch, ProgramLimitExceeded, StatementTooComplex

from gridfleet.kernel.db.pool import (
    Connection,
    Database,
    Transactions,
    after_commit,
    limit_statements,
    open_database,
    savepoint,
)
from gridfleet.kernel.db.pooler import BehindPooler, refuse_pooler

__all__ = [
    "UNSTORABLE",
    "BehindPooler",
    "Connection",
    "Database",
    "DatabaseError",
    "Transactions",
    "after_commit",
    "json_size",
    "limit_statements",
    "open_database",
    "refuse_pooler",
    "savepoint",
    "storable",
]

UNSTORABLE: Final = (DataError, IntegrityError, DatatypeMismatch, ProgramLimitExceeded, StatementTooComplex)
"""Errors about content that the database refuses on every attempt.

`DatatypeMismatch` is a value of a type that its column does not take, `ProgramLimitExceeded` a value too long for an index,
`StatementTooComplex` JSON nested too deeply. Any other error concerns the database itself.
"""


def storable(text: str) -> str:
    """Return the text in a form that PostgreSQL stores: NUL is replaced by U+FFFD, a lone surrogate by a question mark."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def json_size(value: Any) -> int:
    """Return the bytes of a JSON value as PostgreSQL returns it: it writes 1e308 with 309 digits."""
    written_out = sum(len(f"{Decimal(text):f}") - len(text) for text in map(repr, _floats(value)) if "e" in text)
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")) + written_out


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _floats(element)
