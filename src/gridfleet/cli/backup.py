"""`gridfleet backup` and `gridfleet restore`: write the state of a home folder to one file, and restore it."""

import asyncio
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gridfleet.cli.settings import fail, load_settings
from gridfleet.local.home import HomeInUse, held

if TYPE_CHECKING:
    from gridfleet.kernel.archive import Archive, ArchiveWriter
    from gridfleet.kernel.settings import Settings

__all__ = ["register"]

_FORMAT: Final = 1
_DUMP: Final = "database.dump"
_FOLDERS: Final = ("secrets", "ca", "mail")
_MEMBER: Final = re.compile(rf"(?:{'|'.join(_FOLDERS)})/(?!\.\.?$)[^/\0]+")
_REPLACED: Final = ("postgres", "secrets", "ca", "mail", "broker")
"""Parts of a home folder that a restore replaces. The broker's data is rebuilt from the database."""


class _Refused(Exception):
    """The command cannot continue. The text is the reason for the user."""


def register(application: typer.Typer) -> None:
    """Add the commands."""
    application.command()(backup)
    application.command()(restore)


def backup(
    file: Annotated[Path, typer.Argument(help="File to write. It must not exist yet.", dir_okay=False)],
) -> None:
    """Write the home folder's database, keys, certificates and mails into one file. The service may be running.

    Only its owner can read the file: it contains every secret of the deployment. It does not contain messages that wait in the
    broker, the simulator's folder or logs. Back up a database of your own (GRIDFLEET_DATABASE_URL) with its own tools.
    """
    settings = load_settings()
    with _complaints():
        _require_embedded(settings, "backup")
        if file.exists():
            raise _Refused(f"{file} exists already: choose another name")
        if not file.absolute().parent.is_dir():
            raise _Refused(f"{file.absolute().parent} is not a folder")
        began = time.monotonic()
        revision = _write(settings, settings.home.resolve(), file.absolute())
    size, seconds = file.stat().st_size / 1e6, time.monotonic() - began
    typer.echo(f"{file}: {size:.1f} MB, schema {revision}, in {seconds:.1f} s. It contains secrets: store it safely.")


def restore(
    file: Annotated[
        Path, typer.Argument(help="A file that `gridfleet backup` wrote.", exists=True, dir_okay=False, readable=True)
    ],
    force: Annotated[
        bool,
        typer.Option(
            "--force/--no-force", help="Restore into a home folder that has data too; its data moves to `replaced-…` in it."
        ),
    ] = False,
) -> None:
    """Restore the home folder (GRIDFLEET_HOME) from a backup. Then start `gridfleet up`.

    The command checks the whole file first and then moves everything into the home folder. Repeat an interrupted restore.
    """
    settings = load_settings()
    with _complaints():
        _require_embedded(settings, "restore")
        began = time.monotonic()
        facts, replaced = _read(settings.home.resolve(), file, force=force)
    made = f"made {facts['createdAt']} by version {facts['version']}, schema {facts['schemaRevision']}"
    typer.echo(f"{settings.home}: restored in {time.monotonic() - began:.1f} s ({made})")
    if replaced is not None:
        typer.echo(f"The previous data is in {replaced}.")
    typer.echo("Start it with `gridfleet up`.")


def _write(settings: "Settings", home: Path, file: Path) -> str:
    from gridfleet.kernel.archive import new_archive
    from gridfleet.kernel.db.migrate import revision_at
    from gridfleet.local import dump

    with _database(home) as url, new_archive(file) as archive:
        revision = revision_at(url)
        if revision is None:
            raise _Refused(f"the database in {home} is empty: start `gridfleet up` once")
        # Before the dump: without its keyring, a restored database is useless.
        asyncio.run(_check_keyring(settings, url, revision))
        archive.add(_DUMP, dump.dump(url))
        # After the database: a new key is stored before anything is encrypted with it.
        _add_files(archive, settings, home)
        archive.finish(
            {
                "format": _FORMAT,
                "version": version("gridfleet"),
                "createdAt": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "schemaRevision": revision,
                "postgres": dump.server_version(url),
            }
        )
    return revision


async def _check_keyring(settings: "Settings", url: str, revision: str) -> None:
    from gridfleet.domains.maintenance.keyring_check import WrongKeyring, check_keyring
    from gridfleet.kernel.db import open_database
    from gridfleet.kernel.db.migrate import is_behind
    from gridfleet.kernel.security.keyring import Keyring

    try:
        keyring = Keyring.parse(settings.secret("keys").get_secret_value())
        async with open_database(url, name="gridfleet-backup", size=1) as database, database.transaction() as db:
            await check_keyring(db, keyring, is_behind=is_behind(revision))
    except WrongKeyring as error:
        raise _Refused(
            f"the keyring is not that of the database ({error}): if the service is started with GRIDFLEET_KEYS, set it for"
            f" `gridfleet backup` too; otherwise, {error.remedy}"
        ) from None
    except ValueError as error:
        raise _Refused(str(error)) from None


def _add_files(archive: "ArchiveWriter", settings: "Settings", home: Path) -> None:
    keys = settings.secret("keys").get_secret_value()
    archive.add("secrets/keys", [keys.encode() + b"\n"])
    for folder in _FOLDERS:
        for path in sorted((home / folder).glob("*")):
            # Hidden files are incomplete copies of others.
            if path.is_file() and not path.name.startswith(".") and path != home / "secrets" / "keys":
                archive.add(f"{folder}/{path.name}", [path.read_bytes()])


def _read(home: Path, file: Path, *, force: bool) -> tuple[dict[str, Any], Path | None]:
    from gridfleet.kernel.archive import open_archive
    from gridfleet.kernel.private_files import ensure_private_folder

    with held(home):
        present = [name for name in _REPLACED if (home / name).exists()]
        if present and not force:
            raise _Refused(f"{home} is in use ({', '.join(present)}): restore into another GRIDFLEET_HOME, or use --force")
        fresh = home / "restoring"
        shutil.rmtree(fresh, ignore_errors=True)
        with open_archive(file) as archive:
            _check(archive)
            archive.verify()
            try:
                fresh.mkdir()
                for name in archive.names:
                    if name != _DUMP:
                        ensure_private_folder((fresh / name).parent)
                        _write_file(fresh / name, archive.read(name))
                _fill_database(fresh, archive.read(_DUMP))
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
            facts = archive.facts
        replaced = None
        if present:
            replaced = home / f"replaced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            ensure_private_folder(replaced)
            for name in present:
                (home / name).rename(replaced / name)
        # The database comes last. Until it is in place, no command treats the home folder as empty, and a start would create a
        # new database.
        for name in ("mail", "ca", "secrets", "postgres"):
            if (fresh / name).exists():
                (fresh / name).rename(home / name)
        shutil.rmtree(fresh)
    return facts, replaced


def _check(archive: "Archive") -> None:
    from gridfleet.kernel.db.migrate import head_revision, known_revisions

    facts = archive.facts
    if facts.get("format") != _FORMAT:
        raise _Refused(f"the backup has format {facts.get('format')}; this release reads format {_FORMAT}")
    if facts.get("schemaRevision") not in known_revisions():
        raise _Refused(
            f"the backup has schema {facts.get('schemaRevision')} of version {facts.get('version')}, which is newer than this"
            f" release's schema {head_revision()}: install that version or a later one"
        )
    unexpected = [name for name in archive.names if name != _DUMP and not _MEMBER.fullmatch(name)]
    if unexpected:
        raise _Refused(f"the backup has unexpected members: {', '.join(unexpected)}")
    if _DUMP not in archive.names or "secrets/keys" not in archive.names:
        raise _Refused("the backup lacks the database or the keyring")


def _write_file(path: Path, chunks: Iterator[bytes]) -> None:
    path.touch(mode=0o600)
    with path.open("wb") as file:
        file.writelines(chunks)


def _fill_database(fresh: Path, chunks: Iterator[bytes]) -> None:
    from gridfleet.local import dump
    from gridfleet.local.postgres import EmbeddedPostgres

    postgres = EmbeddedPostgres(fresh)
    try:
        dump.restore(postgres.start(), chunks)
    finally:
        postgres.stop()


@contextmanager
def _database(home: Path) -> Iterator[str]:
    """Yield the URL of the home folder's database: of the running service, or of a server started for this block."""
    from gridfleet.local.postgres import EmbeddedPostgres

    if not (home / "postgres" / "PG_VERSION").exists():
        raise _Refused(f"there is no database in {home}: set GRIDFLEET_HOME to the home folder")
    postgres = EmbeddedPostgres(home)
    try:
        with held(home):
            try:
                yield postgres.start()
            finally:
                postgres.stop()
    except HomeInUse:
        yield postgres.url


def _require_embedded(settings: "Settings", command: str) -> None:
    if settings.database_url is not None:
        raise _Refused(
            f"`gridfleet {command}` is for the embedded database, and GRIDFLEET_DATABASE_URL names a server of your own:"
            " docs/operations.md, section Backup, describes how to back it up"
        )


@contextmanager
def _complaints() -> Iterator[None]:
    """End the command with exit code 1 and one sentence for every error that is not a bug."""
    import psycopg

    from gridfleet.kernel.archive import BrokenArchive
    from gridfleet.local.dump import DumpFailed
    from gridfleet.local.postgres import EmbeddedPostgresError

    try:
        yield
    except (_Refused, HomeInUse, BrokenArchive, DumpFailed, EmbeddedPostgresError, LookupError) as error:
        fail(str(error))
    except psycopg.OperationalError as error:
        fail(f"the database does not respond: {error}")
    except OSError as error:
        fail(f"{error.filename or 'the file'}: {error.strerror}")
