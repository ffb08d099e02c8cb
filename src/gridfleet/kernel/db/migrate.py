"""Schema migrations: Alembic with plain SQL, applied by the process that starts first."""

import logging
import re
from pathlib import Path
from typing import Final

import psycopg

from gridfleet.kernel.db.pool import NOTICE_A_DEAD_MACHINE, Connection

__all__ = ["applied_revision", "head_revision", "is_behind", "known_revisions", "migrate", "revision_at"]

_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_REVISION: Final = re.compile(r"""^(down_revision|revision)\b[^=\n]*=\s*["']([^"']+)["']""", re.MULTILINE)


def migrate(url: str) -> str:
    """Migrate the database at `url` to the newest revision. Concurrent callers wait for each other.

    A database that a later release has migrated is not changed, because its schema also supports this release.

    Returns:
        The revision of the database afterwards, which may be a later release's.

    Raises:
        psycopg.Error: The database does not respond.
        sqlalchemy.exc.DBAPIError: A migration failed, for example because a table was locked for longer than a second.
    """
    logging.getLogger("alembic").setLevel(logging.WARNING)
    found = revision_at(url)
    if found is not None and not is_behind(found):
        return found
    # Imported here: processes that only need the newest revision must not load Alembic and SQLAlchemy.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = url
    command.upgrade(config, "head")
    newest = head_revision()
    assert newest is not None  # it has just been applied
    return newest


def head_revision() -> str | None:
    """Return the newest revision in this code: the one that no other follows."""
    known, followed = _revisions()
    heads = known - followed
    if len(heads) > 1:
        raise LookupError(f"several revisions claim to be the newest: {sorted(heads)}")
    return heads.pop() if heads else None


def is_behind(revision: str | None) -> bool:
    """Return whether a database at this revision lacks something that this code needs.

    A revision that is not in this code belongs to a later release, whose migrations also support the previous release.
    """
    return revision is None or (revision != head_revision() and revision in known_revisions())


def known_revisions() -> set[str]:
    """Return every revision in this code. Others belong to a later release."""
    return _revisions()[0]


def _revisions() -> tuple[set[str], set[str]]:
    """Return all revisions in this code, and those that another revision follows."""
    found: dict[str, set[str]] = {"revision": set(), "down_revision": set()}
    for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"):
        for name, revision in _REVISION.findall(path.read_text()):
            found[name].add(revision)
    return found["revision"], found["down_revision"]


def revision_at(url: str) -> str | None:
    """Return the revision of the database at `url`; None before its first migration.

    Raises psycopg errors, after five seconds if it accepts connections and does not respond.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5, **NOTICE_A_DEAD_MACHINE) as connection:
        if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row else None


async def applied_revision(connection: Connection) -> str | None:
    """Return the revision like `revision_at`, over a connection of the pool, for readiness checks."""
    cursor = await connection.execute("SELECT to_regclass('alembic_version')")
    if await cursor.fetchone() == (None,):
        return None
    cursor = await connection.execute("SELECT version_num FROM alembic_version")
    row = await cursor.fetchone()
    return row[0] if row else None
