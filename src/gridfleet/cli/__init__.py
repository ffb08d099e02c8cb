"""The `gridfleet` command, one module a command group.

Modules import what they need inside their commands: every process of the service starts through here, and none should
pay for the others' imports.
"""

import sys
from typing import Annotated

import typer

from gridfleet.cli import admin, backup, ca, db, doctor, keys, processes, routes, setup, simulate, up
from gridfleet.cli.wording import use_plain_help
from gridfleet.kernel import colours
from gridfleet.kernel.outages import trouble_outside

__all__ = ["application", "main"]

application = typer.Typer(
    name="gridfleet",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # paragraphs are filled, and brackets stay
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
up.register(application)
processes.register(application)
simulate.register(application)
routes.register(application)
backup.register(application)
doctor.register(application)
application.add_typer(admin.commands, name="admin")
application.add_typer(ca.commands, name="ca")
application.add_typer(db.commands, name="db")
application.add_typer(keys.commands, name="keys")
application.add_typer(setup.commands, name="setup")
use_plain_help(application)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gridfleet {version('gridfleet')}")
        raise typer.Exit


@application.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Say which release this is, and end.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Open fleet energy management: storage and solar plants over MQTT, people over REST, partners over AMQP."""
    if colours.are_unwanted():
        context.color = False


def main() -> None:
    """Runs the command line. What keeps a command from its work without being a bug is a line, and exit code 1."""
    try:
        application()
    except Exception as error:
        reason = trouble_outside(error)
        if reason is None:
            raise
        print(reason, file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None
