"""Schema migrations: Alembic with plain SQL, applied by whoever starts first."""

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from gridfleet.kernel.db.pool import Connection

__all__ = ["applied_revision", "head_revision", "migrate", "revision_at"]

_MIGRATIONS = Path(__file__).with_name("migrations")


def migrate(url: str) -> str | None:
    """Brings the database at `url` to the newest revision and gives it; two callers at once wait for each other."""
    config = _config()
    config.attributes["url"] = url
    command.upgrade(config, "head")
    return head_revision()


def head_revision() -> str | None:
    """The newest revision this code knows."""
    return ScriptDirectory.from_config(_config()).get_current_head()


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


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config
