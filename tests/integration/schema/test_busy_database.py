"""A migration waits for the transactions of a busy database where waiting blocks no other process."""

import threading

import psycopg
from alembic import command
from alembic.config import Config

from gridfleet.kernel.db.migrate import head_revision, migrate


def test_an_index_waits_for_older_transactions(postgres_url: str) -> None:
    url = postgres_url.replace("/gridfleet?", "/busy?")
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute("CREATE DATABASE busy")
    config = Config()
    config.set_main_option("script_location", "gridfleet.kernel.db:migrations")
    config.attributes["url"] = url
    command.upgrade(config, "0107")
    with psycopg.connect(url) as older:
        older.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        older.execute("SELECT 1")
        threading.Timer(3, older.commit).start()
        assert migrate(url) == head_revision()
