"""Migrations that keep an organisation with rows of plants fill it, also for rows of the previous release."""

from collections.abc import Iterator

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from gridfleet.kernel.db.migrate import head_revision, migrate

_PLANTS = (
    "INSERT INTO organization (id, name, slug) SELECT gen_random_uuid(), 'O', 'o-' || n FROM generate_series(1, 2) AS n;"
    "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
    " SELECT gen_random_uuid(), o.id, 'P', 'S' || n, 'GATEWAY', 'PASSWORD' FROM organization o, generate_series(1, 3) AS n"
)
_WRONG = (
    "SELECT count(*) FROM {} r JOIN plant p ON p.id = r.plant_id WHERE r.organization_id IS DISTINCT FROM p.organization_id"
)


@pytest.fixture
def old(postgres_url: str) -> Iterator[tuple[str, Config]]:
    """An empty database, and the means to upgrade it to some revision."""
    url = postgres_url.replace("/gridfleet?", "/rows_of_organisations?")
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute("CREATE DATABASE rows_of_organisations")
        config = Config()
        config.set_main_option("script_location", "gridfleet.kernel.db:migrations")
        config.attributes["url"] = url
        yield url, config
        server.execute("DROP DATABASE rows_of_organisations WITH (FORCE)")


@pytest.mark.parametrize(
    ("revision", "table", "insert"),
    [
        (
            "0135",
            "plant_command",
            "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
            " SELECT gen_random_uuid(), id, 'DEVICE_COMMAND', '{}', 'USER', now(), now(), now()"
            " FROM plant, generate_series(1, 2000)",
        ),
        (
            "0137",
            "refused_message",
            "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
            " SELECT gen_random_uuid(), id, now(), '', 'MALFORMED', '', 1 FROM plant, generate_series(1, 2000)",
        ),
        (
            "0137",
            "unregistered_device",
            "INSERT INTO unregistered_device (plant_id, external_id, first_seen_at, last_seen_at, count)"
            " SELECT id, gen_random_uuid(), now(), now(), 1 FROM plant, generate_series(1, 2000)",
        ),
    ],
)
def test_rows_get_the_organisation_of_their_plant(old: tuple[str, Config], revision: str, table: str, insert: str) -> None:
    url, config = old
    command.upgrade(config, revision)
    with psycopg.connect(url) as db:
        db.execute(_PLANTS)
        db.execute(insert.encode())

    assert migrate(url) == head_revision()

    with psycopg.connect(url) as db:
        assert db.execute(_WRONG.format(table).encode()).fetchone() == (0,)
        db.execute(insert.replace("2000", "1").encode())  # as a process of the previous release
        assert db.execute(_WRONG.format(table).encode()).fetchone() == (0,)
        [(count,)] = db.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
    assert count == 12_006
