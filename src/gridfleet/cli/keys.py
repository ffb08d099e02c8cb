"""`gridfleet keys`: the keyring that credentials are encrypted with, and the import of partners' legacy API keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridfleet.cli.settings import database_url, fail, load_settings

if TYPE_CHECKING:
    from gridfleet.domains.partners.legacy.importing import Imported
    from gridfleet.kernel.security.keyring import Keyring
    from gridfleet.kernel.settings import Settings

__all__ = ["commands"]

commands = typer.Typer(help="The keyring that credentials are encrypted with, and legacy API keys.", no_args_is_help=True)


@commands.command()
def show() -> None:
    """Show the versions in the keyring, the one that encrypts, and how many rows need each. No key is shown.

    Exit code 1 if rows need a version that is not in the keyring.
    """
    import asyncio

    settings = load_settings()
    keyring = _keyring(settings)
    counts = asyncio.run(_counts(database_url(settings)))
    needed = {version for versions in counts.values() for version in versions}
    for version in sorted(needed | set(keyring.versions)):
        rows = {kind: versions[version] for kind, versions in counts.items() if version in versions}
        notes = ["encrypts"] if version == keyring.current_version else []
        notes += [] if version in keyring.versions else ["NOT IN THE KEYRING"]
        notes += [f"{kind} {count}" for kind, count in rows.items()] or ["no row needs it"]
        typer.echo(f"version {version}: {', '.join(notes)}")
    if needed - set(keyring.versions):
        raise typer.Exit(1)


@commands.command()
def add() -> None:
    """Add a new key to `secrets/keys` in the home folder. The current version continues to encrypt.

    Restart the service afterwards. docs/operations.md, section Keys, has the next steps. If GRIDFLEET_KEYS is set, nothing is
    written: the command prints the entry to append there.
    """
    import os

    from gridfleet.kernel.private_files import write_private

    settings = load_settings()
    keyring = _keyring(settings)
    version = max(keyring.versions) + 1
    entry = f"{version}:{os.urandom(32).hex()}"
    if settings.keys is not None:
        typer.echo(f"append to GRIDFLEET_KEYS, and :current to the entry of version {keyring.current_version}:", err=True)
        typer.echo(f",{entry}")
        return
    text = settings.secret("keys").get_secret_value()
    entries = [part.strip() for part in text.split(",")]
    marked = [
        f"{part}:current" if part.startswith(f"{keyring.current_version}:") and not part.endswith(":current") else part
        for part in entries
    ]
    write_private(settings.home / "secrets" / "keys", ",".join([*marked, entry]) + "\n")
    typer.echo(f"version {version} is in the keyring; version {keyring.current_version} still encrypts. Restart the service.")


@commands.command()
def use_newest() -> None:
    """Encrypt with the highest version in `secrets/keys` of the home folder from the next start on."""
    from gridfleet.kernel.private_files import write_private

    settings = load_settings()
    keyring = _keyring(settings)
    if settings.keys is not None:
        fail("GRIDFLEET_KEYS is set: remove `:current` from it there")
    text = settings.secret("keys").get_secret_value()
    write_private(settings.home / "secrets" / "keys", text.replace(":current", "") + "\n")
    typer.echo(f"version {max(keyring.versions)} encrypts from the next start on. Restart the service.")


@commands.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            readable=True,
            help="CSV file with a header row. docs/partners.md, section Legacy keys, lists the columns.",
        ),
    ],
) -> None:
    """Import API keys of an older integration, which work in the vhost `/`.

    Either all rows are imported or none. Rows that were imported before are not changed.
    """
    import asyncio

    from gridfleet.domains.partners.legacy.importing import ImportRefused

    settings = load_settings()
    keyring = _keyring(settings)
    try:
        imported = asyncio.run(_import(database_url(settings), keyring, file.read_text("utf-8-sig")))
    except (OSError, UnicodeDecodeError, LookupError) as error:
        fail(str(error))
    except ImportRefused as error:
        fail("\n".join(error.complaints))
    typer.echo(f"{imported.new} keys imported, {imported.known} existed already")


async def _import(url: str, keyring: "Keyring", text: str) -> "Imported":
    from gridfleet.domains.identity.accounts.admins import list_super_admins
    from gridfleet.domains.partners.legacy.importing import import_keys, read_keys
    from gridfleet.kernel.db import open_database

    keys = read_keys(text)
    async with open_database(url, name="gridfleet-keys", size=1) as database, database.transaction() as db:
        admins = await list_super_admins(db)
        if not admins:
            raise LookupError("there is no SuperAdmin to record as the keys' creator; create one with `gridfleet admin create`")
        return await import_keys(db, keyring, admins[0].id, keys)


async def _counts(url: str) -> dict[str, dict[int, int]]:
    from gridfleet.domains.maintenance.rewrapping import key_versions
    from gridfleet.kernel.db import open_database

    async with open_database(url, name="gridfleet-keys", size=1) as database, database.transaction() as db:
        return await key_versions(db)


def _keyring(settings: "Settings") -> "Keyring":
    from gridfleet.kernel.security.keyring import Keyring

    try:
        return Keyring.parse(settings.secret("keys").get_secret_value())
    except (LookupError, ValueError) as error:
        fail(str(error))
