"""Schema migrations: Alembic with plain SQL, applied by whoever starts first."""

import logging
import re
from pathlib import Path
from typing import Final

import psycopg

from gridfleet.kernel.db.pool import Connection

__all__ = ["applied_revision", "head_revision", "known_revisions", "migrate", "revision_at"]

_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_REVISION: Final = re.compile(r"""^(down_revision|revision)\b[^=\n]*=\s*["']([^"']+)["']""", re.MULTILINE)


def migrate(url: str) -> str | None:
    """Brings the database at `url` to the newest revision and gives it; two callers at once wait for each other."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # Imported here: the processes that only ask for the newest revision need not carry Alembic and SQLAlchemy.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["url"] = url
    command.upgrade(config, "head")
    return head_revision()


def head_revision() -> str | None:
    """The newest revision this code knows: the one that no other follows."""
    found = _revisions()
    heads = found["revision"] - found["down_revision"]
    if len(heads) > 1:
        raise LookupError(f"several revisions claim to be the newest: {sorted(heads)}")
    return heads.pop() if heads else None


def known_revisions() -> set[str]:
    """Every revision this code knows; one that it does not is a newer release's."""
    return _revisions()["revision"]


def _revisions() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"revision": set(), "down_revision": set()}
    for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"):
        for name, revision in _REVISION.findall(path.read_text()):
            found[name].add(revision)
    return found


def revision_at(url: str) -> str | None:
    """The revision the database at `url` has; None before its first migration."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row else None


async def applied_revision(connection: Connection) -> str | None:
    """The same over a connection of the pool, for readiness checks."""
    cursor = await connection.execute("SELECT to_regclass('alembic_version')")
    if await cursor.fetchone() == (None,):
        return None
    cursor = await connection.execute("SELECT version_num FROM alembic_version")
    row = await cursor.fetchone()
    return row[0] if row else None
