"""The `gridfleet` command, one module a command group.

Modules import what they need inside their commands: every process of the service starts through here, and none should
pay for the others' imports.
"""

import sys

import typer

from gridfleet.cli import admin, backup, ca, db, doctor, keys, processes, routes, setup, simulate, up
from gridfleet.kernel.surroundings import trouble_outside

__all__ = ["application", "main"]

application = typer.Typer(
    name="gridfleet",
    help="Open fleet energy management: storage and solar plants over MQTT, people over REST, partners over AMQP.",
    no_args_is_help=True,
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
