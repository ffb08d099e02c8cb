"""The `gridfleet` command. Each command group has its own module.

Modules import their dependencies inside the commands. Every process of the service starts here, and none of them should load
the imports of the others.
"""

import sys
from typing import Annotated

import typer

from gridfleet.cli import admin, backup, ca, db, doctor, keys, processes, routes, send, setup, simulate, up
from gridfleet.cli.wording import use_plain_help
from gridfleet.kernel import colours
from gridfleet.kernel.outages import trouble_outside

__all__ = ["application", "main"]

application = typer.Typer(
    name="gridfleet",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # joins the lines of a paragraph, and keeps brackets
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
up.register(application)
processes.register(application)
simulate.register(application)
send.register(application)
routes.register(application)
backup.register(application)
doctor.register(application)
application.add_typer(admin.commands, name="admin")
application.add_typer(ca.commands, name="ca")
application.add_typer(db.commands, name="db")
application.add_typer(keys.commands, name="keys")
application.add_typer(setup.commands, name="setup")
use_plain_help(application)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gridfleet {version('gridfleet')}")
        raise typer.Exit


@application.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the release and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Open fleet energy management: storage and solar plants over MQTT, users over REST, partners over AMQP."""
    if colours.are_unwanted():
        context.color = False


def main() -> None:
    """Run the command line.

    An error that is not a bug, such as an unreachable database, is printed as one line, with exit code 1.
    """
    try:
        application()
    except Exception as error:
        reason = trouble_outside(error)
        if reason is None:
            raise
        print(reason, file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None
