"""`gridfleet backup` and `gridfleet restore` where something is in the way: refused with a sentence, nothing half done."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from gridfleet.cli import application
from gridfleet.domains.plants.certificates.authority import ensure_authority
from gridfleet.kernel.archive import new_archive, open_archive
from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.migrate import head_revision, migrate
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.home import held
from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.local.secrets import ensure_local_secrets, local_secret
from support.clients.command_line import gridfleet


@pytest.fixture(scope="module")
def stopped_home() -> Iterator[Path]:
    """A home whose service has been stopped, with one mail whose name is long."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-home-"))
    ensure_local_secrets(folder)
    postgres = EmbeddedPostgres(folder)
    migrate(postgres.start())
    with psycopg.connect(postgres.url) as db:
        db.execute("INSERT INTO organization (id, name, slug) VALUES (gen_random_uuid(), 'Kept', 'kept')")
    postgres.stop()
    (folder / "mail").mkdir()
    (folder / "mail" / f"{'m' * 150}.eml").write_text("a letter")
    (folder / "secrets" / ".keys.half").write_text("half")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def file(stopped_home: Path) -> Path:
    path = stopped_home / "made.backup"
    done = gridfleet("backup", str(path), environment={"GRIDFLEET_HOME": stopped_home})
    assert done.returncode == 0, done.stderr
    assert f"schema {head_revision()}" in done.stdout
    return path


def refused(*words: str, home: Path, **more: str) -> str:
    """What a command says that ends with exit code 1 and no traceback."""
    done = CliRunner().invoke(application, words, env={"GRIDFLEET_HOME": str(home), **more})
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.output
    return done.output


def test_a_stopped_service_is_backed_up_and_is_stopped_afterwards(stopped_home: Path, file: Path) -> None:
    with open_archive(file) as archive:
        archive.verify()
        assert archive.names == [
            "database.dump",
            "secrets/keys",
            "secrets/broker_password",
            "secrets/internal_secret",
            f"mail/{'m' * 150}.eml",
        ]
        assert archive.facts["schemaRevision"] == head_revision()
        assert b"".join(archive.read("secrets/keys")).decode().strip() == local_secret(stopped_home, "keys")
    assert not (stopped_home / "postgres" / "postmaster.pid").exists()


def test_what_cannot_be_backed_up(stopped_home: Path, file: Path, home: Path) -> None:
    assert "exists already" in refused("backup", str(file), home=stopped_home)
    assert "there is no database" in refused("backup", str(home / "x"), home=home)
    assert "is not a folder" in refused("backup", str(home / "a" / "x"), home=stopped_home)
    url = "postgresql://db.example.org/gridfleet"
    assert "docs/operations.md" in refused("backup", str(home / "x"), home=stopped_home, GRIDFLEET_DATABASE_URL=url)
    assert "docs/operations.md" in refused("restore", str(file), home=home, GRIDFLEET_DATABASE_URL=url)
    # A service that has only just begun holds the home, and its database does not answer yet.
    with held(stopped_home):
        assert "the database does not respond" in refused("backup", str(home / "x"), home=stopped_home)
    assert [path.name for path in home.iterdir()] == []


def test_a_keyring_that_does_not_open_the_database_is_not_stored(home: Path, tmp_path: Path) -> None:
    """The service has GRIDFLEET_KEYS; `cron` does not. Earlier starts wrote a keyring of their own into the home."""
    ensure_local_secrets(home)
    ring, file = f"{Keyring.generate()},7:{'77' * 32}", tmp_path / "x"
    with running(home) as url:
        migrate(url)
        asyncio.run(create_authority(url, Keyring.parse(ring)))
    for wrong, complaint in (
        ({}, "rows need version 7, the keyring has 1"),
        ({"GRIDFLEET_KEYS": f"7:{'78' * 32}"}, "does not fit the database"),
        ({"GRIDFLEET_KEYS": "nonsense"}, "is written 1:<64 hex digits>"),
    ):
        assert complaint in refused("backup", str(file), home=home, **wrong)
    (home / "secrets" / "keys").unlink()
    assert "GRIDFLEET_KEYS is not set" in refused("backup", str(file), home=home)
    assert list(tmp_path.iterdir()) == []

    done = gridfleet("backup", str(file), environment={"GRIDFLEET_HOME": home, "GRIDFLEET_KEYS": ring})
    assert done.returncode == 0, done.stderr
    with open_archive(file) as archive:
        assert b"".join(archive.read("secrets/keys")).decode().strip() == ring


def test_the_keyring_of_a_database_that_waits_for_its_migration_is_checked_too(home: Path, tmp_path: Path) -> None:
    ensure_local_secrets(home)
    with running(home) as url:
        migrate(url)
        asyncio.run(create_authority(url, Keyring.parse(f"7:{'77' * 32}")))
        with psycopg.connect(url) as db:
            db.execute("UPDATE alembic_version SET version_num = '0060'")
            db.execute("ALTER TABLE idempotent_answer RENAME TO not_there_yet")
    assert "key version 7 is not in the keyring" in refused("backup", str(tmp_path / "x"), home=home)
    done = gridfleet("backup", str(tmp_path / "x"), environment={"GRIDFLEET_HOME": home, "GRIDFLEET_KEYS": f"7:{'77' * 32}"})
    assert done.returncode == 0, done.stderr


@contextmanager
def running(home: Path) -> Iterator[str]:
    """Run the home's database server and yield its URL."""
    postgres = EmbeddedPostgres(home)
    try:
        yield postgres.start()
    finally:
        postgres.stop()


async def create_authority(url: str, keyring: Keyring) -> None:
    """Store an authority whose key is encrypted with the keyring."""
    async with open_database(url, name="test", size=1) as database, database.transaction() as db:
        await ensure_authority(db, keyring)


def test_a_bad_file_leaves_the_home_as_it_was(file: Path, home: Path, tmp_path: Path) -> None:
    cut, changed, other = tmp_path / "cut", tmp_path / "changed", tmp_path / "other"
    whole = file.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    changed.write_bytes(whole[:5_000] + bytes([whole[5_000] ^ 1]) + whole[5_001:])
    other.write_bytes(b"something else")
    assert "truncated" in refused("restore", str(cut), home=home)
    assert "the checksum of " in refused("restore", str(changed), home=home)
    assert "not a backup" in refused("restore", str(other), home=home)
    assert left(home) == []


def test_a_newer_schema_another_format_and_strange_members_are_refused(file: Path, home: Path, tmp_path: Path) -> None:
    def variant(name: str, **facts: Any) -> str:
        with open_archive(file) as archive, new_archive(tmp_path / name) as copy:
            for member in archive.names:
                copy.add(member, archive.read(member))
            if "member" in facts:
                copy.add(facts.pop("member"), [b"x"])
            copy.finish(archive.facts | facts)
        return str(tmp_path / name)

    newer = refused("restore", variant("newer", schemaRevision="9999", version="99.0"), home=home)
    assert "schema 9999 of version 99.0, which is newer than this release" in newer
    assert "format 2" in refused("restore", variant("format", format=2), home=home)
    for number, member in enumerate(("../evil", "secrets/../../evil", "/etc/evil", "secrets/..", "postgres/PG_VERSION")):
        assert "members" in refused("restore", variant(f"strange-{number}", member=member), home=home)
    assert left(home) == []


def test_a_home_in_use_is_replaced_only_by_force_and_put_aside(file: Path, home: Path, stopped_home: Path) -> None:
    ensure_local_secrets(home)
    own_keys = local_secret(home, "keys")
    assert "is in use (secrets)" in refused("restore", str(file), home=home)
    with held(home):
        assert "already runs" in refused("restore", str(file), "--force", home=home)
    done = gridfleet("restore", str(file), "--force", environment={"GRIDFLEET_HOME": home})
    assert done.returncode == 0, done.stderr
    [replaced] = home.glob("replaced-*")
    assert local_secret(replaced, "keys") == own_keys
    assert local_secret(home, "keys") == local_secret(stopped_home, "keys")
    assert left(home) == ["lock", "mail", "postgres", replaced.name, "secrets"]
    postgres = EmbeddedPostgres(home)
    try:
        with psycopg.connect(postgres.start()) as db:
            assert db.execute("SELECT slug FROM organization").fetchall() == [("kept",)]
    finally:
        postgres.stop()


def left(home: Path) -> list[str]:
    """What is in a home, but for the lock that every command takes."""
    names = sorted(path.name for path in home.iterdir())
    return [] if names == ["lock"] else names
