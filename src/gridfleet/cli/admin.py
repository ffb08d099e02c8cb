"""`gridfleet admin`: manage SuperAdmins with direct access to the deployment's database."""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gridfleet.cli.settings import database_url, fail, load_settings

if TYPE_CHECKING:
    from gridfleet.kernel.db import Connection

__all__ = ["commands"]

commands = typer.Typer(help="Create and list SuperAdmins, and reset a user's password.", no_args_is_help=True)

T = TypeVar("T")
Email = Annotated[str, typer.Argument(help="The e-mail address to log in with.")]
FromInput = Annotated[
    bool,
    typer.Option(
        "--password-stdin/--no-password-stdin", help="Read the password from standard input instead of generating one."
    ),
]


@commands.command()
def create(
    email: Email,
    name: Annotated[str, typer.Option(help="The name that other users see.")] = "Administrator",
    password_stdin: FromInput = False,
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Make the existing account with this address a SuperAdmin.")
    ] = False,
) -> None:
    """Create a SuperAdmin. A generated password is shown once."""
    from gridfleet.domains.identity.accounts import admins
    from gridfleet.domains.identity.errors import EmailTaken, UserNotFound

    if promote:
        try:
            changed = _run(lambda db: admins.promote(db, email))
        except UserNotFound:
            fail(f"there is no account with the address {email}")
        typer.echo(f"{email} is a SuperAdmin {'now' if changed else 'already'}")
        return
    password, hashed = _password(password_stdin)
    try:
        _run(lambda db: admins.create_super_admin(db, email, name.strip() or email, hashed))
    except EmailTaken:
        fail(f"{email} has an account already; --promote makes it a SuperAdmin, `gridfleet admin reset-password` opens it")
    except ValueError as error:
        fail(str(error))
    typer.echo(f"{email} is a SuperAdmin now")
    _show(password)


@commands.command()
def reset_password(email: Email, password_stdin: FromInput = False) -> None:
    """Reset a user's password, end all sessions and unlock the account. A generated password is shown once."""
    from gridfleet.domains.identity.accounts import admins
    from gridfleet.domains.identity.errors import UserNotFound

    password, hashed = _password(password_stdin)
    try:
        _run(lambda db: admins.set_password(db, email, hashed))
    except UserNotFound:
        fail(f"there is no account with the address {email}")
    typer.echo(f"{email} has a new password; every session was ended")
    _show(password)


@commands.command("list")
def list_admins() -> None:
    """List every SuperAdmin, oldest first."""
    from gridfleet.domains.identity.accounts import admins

    for user in _run(admins.list_super_admins):
        typer.echo(f"{user.created_at:%Y-%m-%d}  {user.email}  {user.name}")


def _run(work: "Callable[[Connection], Awaitable[T]]") -> T:
    """Run `work` in its own transaction and return its result."""
    import asyncio

    from gridfleet.kernel.db import open_database

    url = database_url(load_settings())

    async def run() -> T:
        async with open_database(url, name="gridfleet-admin", size=2) as database, database.transaction() as db:
            return await work(db)

    return asyncio.run(run())


def _password(from_input: bool) -> tuple[str | None, str]:
    """Return the generated password (None if one was entered) and the hash of the password."""
    import asyncio

    from gridfleet.domains.identity.bootstrap import generate_password, password_complaint
    from gridfleet.kernel.security.passwords import Passwords

    # Never an argument: arguments appear in the shell history and in the process list.
    given = sys.stdin.readline().rstrip("\r\n") if from_input else None
    if given is not None and (complaint := password_complaint(given)):
        fail(complaint)
    chosen = given if given is not None else generate_password()
    passwords = Passwords(threads=1)
    try:
        return (chosen if given is None else None), asyncio.run(passwords.hash(chosen))
    finally:
        passwords.close()


def _show(password: str | None) -> None:
    if password is not None:
        typer.echo(f"password (shown this once): {password}")
