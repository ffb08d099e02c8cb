"""`gridfleet db upgrade`, `db check`, `setup database` and `gridfleet keys`: their results, output and exit codes."""

import asyncio
import socket
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from typer.testing import CliRunner

from gridfleet.cli import application
from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.migrate import head_revision
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.secrets import ensure_local_secrets, local_secret
from support.builders.encrypted_rows import EncryptedRows
from support.servers.free_ports import free_ports


def run(*words: str, **settings: object) -> tuple[int, str]:
    """Exit code and everything printed."""
    environment = {f"GRIDFLEET_{name.upper()}": str(value) for name, value in settings.items()}
    done = CliRunner().invoke(application, words, env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output.strip()


def set_revision(url: str, revision: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("UPDATE alembic_version SET version_num = %s", (revision,))


def test_a_schema_that_is_current_behind_or_ahead(database_url: str) -> None:
    head = head_revision()
    assert run("db", "check", database_url=database_url) == (0, f"schema at revision {head}, this release needs {head}")
    assert run("db", "upgrade", database_url=database_url) == (0, f"schema at revision {head}")
    set_revision(database_url, "0060")
    code, text = run("db", "check", database_url=database_url)
    assert (code, text) == (1, f"schema at revision 0060, this release needs {head}: run `gridfleet db upgrade`")
    set_revision(database_url, "9999")
    code, text = run("db", "check", database_url=database_url)
    assert code == 0
    assert "a later release's" in text
    assert run("db", "upgrade", database_url=database_url) == (0, "schema at revision 9999")


def test_a_database_that_accepts_and_does_not_answer_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        code, text = run("db", "check", database_url=f"postgresql://gridfleet@127.0.0.1:{mute.getsockname()[1]}/x")
    assert code == 1
    assert "timeout" in text


def test_an_empty_database_is_migrated(postgres_url: str) -> None:
    url = postgres_url.replace("/gridfleet?", "/empty?")
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute("CREATE DATABASE empty")
        assert run("db", "check", database_url=url)[0] == 1
        assert run("db", "upgrade", database_url=url) == (0, f"schema at revision {head_revision()}, before at None")
        assert run("db", "check", database_url=url)[0] == 0
        server.execute("DROP DATABASE empty")


@pytest.mark.parametrize("words", [("db", "check"), ("db", "upgrade")])
def test_a_database_that_is_away(words: tuple[str, ...]) -> None:
    code, text = run(*words, database_url=f"postgresql://127.0.0.1:{free_ports(1)[0]}/x")
    assert code == 1
    assert "database error" in text


def test_the_certificate_of_the_broker_contains_every_name(database_url: str, home: Path) -> None:
    settings = {"home": home, "database_url": database_url, "keys": Keyring.generate(), "mqtt_host": "mq1.example.org"}

    def names(further: str) -> set[str]:
        code, text = run("setup", "database", **settings, mqtt_further_hosts=further)
        assert code == 0, text
        certificate = x509.load_pem_x509_certificate((home / "ca" / "server.pem").read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {str(name.value) for name in found}

    local = {"mq1.example.org", "localhost", "127.0.0.1", "::1"}
    assert names("") == local
    assert names("mq2.example.org,192.0.2.3") == {*local, "mq2.example.org", "192.0.2.3"}


async def fill(url: str, ring: str) -> None:
    async with open_database(url, name="test", size=2) as database:
        await EncryptedRows(database, Keyring.parse(ring)).fill(plants=3, others=0)


def test_keys_are_added_used_and_counted(database_url: str, home: Path) -> None:
    ensure_local_secrets(home)
    asyncio.run(fill(database_url, local_secret(home, "keys")))
    settings = {"home": home, "database_url": database_url}

    def added() -> Keyring:
        assert run("keys", "add", **settings)[0] == 0
        return Keyring.parse(local_secret(home, "keys"))

    assert run("keys", "show", **settings) == (0, "version 1: encrypts, plant_secret 3, certificate_authority 1")
    both = added()
    assert (both.versions, both.current_version) == ((1, 2), 1)
    assert (home / "secrets" / "keys").stat().st_mode & 0o777 == 0o600
    assert run("keys", "use-newest", **settings)[0] == 0
    assert Keyring.parse(local_secret(home, "keys")).current_version == 2
    assert (added().versions, added().current_version) == ((1, 2, 3), 2)  # and a fourth
    code, text = run("keys", "show", **settings)
    assert (code, text.splitlines()[1:]) == (
        0,
        ["version 2: encrypts, no row needs it", "version 3: no row needs it", "version 4: no row needs it"],
    )
    for secret in local_secret(home, "keys").split(","):
        assert secret.split(":")[1] not in text
    code, text = run("keys", "show", **settings, keys=f"2:{'22' * 32}")
    assert (code, text.splitlines()[0]) == (1, "version 1: NOT IN THE KEYRING, plant_secret 3, certificate_authority 1")
    code, text = run("keys", "add", **settings, keys=f"7:{'22' * 32}")
    assert text.splitlines()[1].startswith(",8:")
    assert Keyring.parse(f"7:{'22' * 32}:current{text.splitlines()[1]}").versions == (7, 8)
    assert run("keys", "show", home=home / "none", database_url=database_url)[0] == 1
