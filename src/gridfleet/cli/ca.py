"""`gridfleet ca`: manage the deployment's certificate authority with direct access to its database."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from gridfleet.cli.settings import database_url, fail, load_settings

if TYPE_CHECKING:
    from gridfleet.kernel.db import Connection
    from gridfleet.kernel.security.certificates import Authority
    from gridfleet.kernel.security.keyring import Keyring

__all__ = ["commands"]

commands = typer.Typer(
    help="Show or replace the authority that issues the certificates of plants and broker.",
    no_args_is_help=True,
)

T = TypeVar("T")
_FILE: Final[dict[str, Any]] = {"exists": True, "dir_okay": False, "readable": True}


@commands.command()
def export(
    key: Annotated[bool, typer.Option("--key/--no-key", help="Print the private key as well. Keep it secret.")] = False,
) -> None:
    """Print the authority's certificate (PEM). All clients of the broker must trust it."""
    from gridfleet.domains.plants.certificates.authority import ensure_authority

    authority = _run(ensure_authority)
    typer.echo(authority.certificate_pem + (authority.key_pem if key else ""), nl=False)


@commands.command("import")
def import_(
    certificate: Annotated[
        Path,
        typer.Argument(**_FILE, help="PEM file: the authority's certificate, then the certificates above it up to the root."),
    ],
    key: Annotated[Path, typer.Argument(**_FILE, help="PEM file: the authority's private key.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force/--no-force",
            help="Replace the authority even if plants trust the current one. These plants can no longer connect.",
        ),
    ] = False,
) -> None:
    """Issue certificates with your own authority from now on.

    CERTIFICATE contains the authority's certificate, followed by those above it unless it is a root. KEY contains its private
    key. Both are PEM files. The command prompts for the password of an encrypted key. Restart the service afterwards; the
    broker then gets its new certificate.

    Import the authority before you provision the first plant. Packages contain the authority to trust, so the command refuses
    when plants have packages. With --force it continues: after the restart, those plants refuse the broker and the broker
    refuses their certificates, until each plant has the new authority (gridfleet ca export) and, if its method is MTLS, a
    renewed certificate.
    """
    from gridfleet.domains.plants.certificates.authority import AuthorityInUse, replace_authority

    authority = _load(certificate, key)
    try:
        _run(lambda db, keyring: replace_authority(db, keyring, authority, force=force))
    except AuthorityInUse as error:
        fail(
            f"{error.plants} plants hold packages that trust the current authority, and could no longer connect."
            " `gridfleet ca import --help` says what --force does."
        )
    typer.echo(f"this authority issues certificates from now on, until {authority.expires_at:%Y-%m-%d}; restart the service")


def _load(certificate: Path, key: Path) -> "Authority":
    from gridfleet.kernel.security.certificates import Authority

    password: bytes | None = None
    while True:
        try:
            return Authority.load(certificate.read_bytes(), key.read_bytes(), password)
        except TypeError:  # raised by the library if the key is encrypted
            password = typer.prompt("password of the key", hide_input=True).encode()
        except ValueError as error:
            fail(str(error))


def _run(work: "Callable[[Connection, Keyring], Awaitable[T]]") -> T:
    """Run `work` in its own transaction and return its result."""
    import asyncio

    from gridfleet.kernel.db import open_database
    from gridfleet.kernel.security.keyring import Keyring

    settings = load_settings()
    url = database_url(settings)
    try:
        keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    except LookupError as error:
        fail(str(error))

    async def run() -> T:
        async with open_database(url, name="gridfleet-ca", size=2) as database, database.transaction() as db:
            return await work(db, keyring)

    return asyncio.run(run())
