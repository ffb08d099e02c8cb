"""`gridfleet ca`: the certificate authority of the deployment, for whoever runs it and has its database."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from gridfleet.cli.settings import database_url, load_settings

if TYPE_CHECKING:
    from gridfleet.kernel.db import Connection
    from gridfleet.kernel.security.certificates import Authority
    from gridfleet.kernel.security.keyring import Keyring

__all__ = ["commands"]

commands = typer.Typer(
    help="The authority that issues the plants' and the broker's certificates: show it, or use your own.",
    no_args_is_help=True,
)

T = TypeVar("T")
_FILE: Final[dict[str, Any]] = {"exists": True, "dir_okay": False, "readable": True}


@commands.command()
def export(
    key: Annotated[bool, typer.Option("--key/--no-key", help="Print the private key as well. Keep it secret.")] = False,
) -> None:
    """Print the authority's certificate (PEM), which everything that talks to the broker has to trust."""
    from gridfleet.domains.plants.certificates.authority import ensure_authority

    authority = _run(ensure_authority)
    typer.echo(authority.certificate_pem + (authority.key_pem if key else ""), nl=False)


@commands.command("import")
def import_(
    certificate: Annotated[Path, typer.Argument(**_FILE, help="PEM file: its certificate, and those above it up to the root.")],
    key: Annotated[Path, typer.Argument(**_FILE, help="PEM file: its private key.")],
    force: Annotated[
        bool, typer.Option("--force/--no-force", help="Also when plants trust the present authority: they are cut off.")
    ] = False,
) -> None:
    """Issue certificates by an authority of your own from now on.

    CERTIFICATE is its certificate, followed by those above it unless it is a root; KEY its private key. Both are PEM files;
    an encrypted key's password is asked for. Restart the service afterwards: the broker gets its new certificate then.

    Do it before the first plant is provisioned. A package names the authority to trust, so once plants hold packages the
    command refuses. With --force it goes ahead: after the restart those plants refuse the broker, and the broker refuses
    their certificates, until each of them has got the new certificate (gridfleet ca export) and, where its method is MTLS,
    a renewed one of its own.
    """
    from gridfleet.domains.plants.certificates.authority import AuthorityInUse, replace_authority
    from gridfleet.kernel.caller import SystemScope

    authority = _load(certificate, key)
    system = SystemScope("the authority serves every organisation")
    try:
        _run(lambda db, keyring: replace_authority(db, system, keyring, authority, force=force))
    except AuthorityInUse as error:
        _fail(
            f"{error.plants} plants hold packages that trust the present authority and would be cut off."
            " `gridfleet ca import --help` says what --force does."
        )
    typer.echo(f"certificates are issued by it from now on, until {authority.expires_at:%Y-%m-%d}; restart the service")


def _load(certificate: Path, key: Path) -> "Authority":
    from gridfleet.kernel.security.certificates import Authority

    password: bytes | None = None
    while True:
        try:
            return Authority.load(certificate.read_bytes(), key.read_bytes(), password)
        except TypeError:  # the library's word for a key that is encrypted
            password = typer.prompt("password of the key", hide_input=True).encode()
        except ValueError as error:
            _fail(str(error))


def _run(work: "Callable[[Connection, Keyring], Awaitable[T]]") -> T:
    """The result of a piece of work in a transaction of its own."""
    import asyncio

    from gridfleet.kernel.db import open_database
    from gridfleet.kernel.security.keyring import Keyring

    settings = load_settings()
    url = database_url(settings)
    try:
        keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    except LookupError as error:
        _fail(str(error))

    async def run() -> T:
        async with open_database(url, name="gridfleet-ca", size=2) as database, database.transaction() as db:
            return await work(db, keyring)

    return asyncio.run(run())


def _fail(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(1)
