"""`gridfleet db`: manage the database schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from gridfleet.cli.settings import database_url, load_settings
from gridfleet.kernel.db.scale_out import Extension, Step

__all__ = ["commands"]

_MOST_DAYS: Final = 36_500
"""A hundred years."""

commands = typer.Typer(help="The database's schema and retention.", no_args_is_help=True)


@commands.command()
def upgrade() -> None:
    """Migrate the database to this release's schema.

    A database with this schema, or with that of a later release, is not changed. Exit code 1 if the database is unavailable or
    a table is locked for too long: try again.
    """
    from gridfleet.kernel.db.migrate import migrate, revision_at
    from gridfleet.kernel.logging import configure_logging

    settings = load_settings()
    configure_logging(settings.log_level, json=settings.log_format == "json")
    url = _url()
    with _complaints():
        found = revision_at(url)
        revision = migrate(url)
    typer.echo(f"schema at revision {revision}" + ("" if found == revision else f", before at {found}"))


@commands.command()
def check() -> None:
    """Check the schema: exit code 0 if this release can use it, 1 if not or if the database is unavailable."""
    from gridfleet.kernel.db.migrate import head_revision, is_behind, revision_at

    url = _url()
    with _complaints():
        found = revision_at(url)
    behind = is_behind(found)
    newer = ": it is a later release's, which this one can work with"
    hint = ": run `gridfleet db upgrade`" if behind else "" if found == head_revision() else newer
    typer.echo(f"schema at revision {found}, this release needs {head_revision()}{hint}")
    if behind:
        raise typer.Exit(1)


@commands.command()
def grant(
    role: Annotated[str, typer.Argument(help="Role that serve, ingest, gateway and jobs connect as.")],
) -> None:
    """Give a role the rights to run the service, but not to change its schema. Run it as the owner, after each upgrade."""
    from gridfleet.kernel.db import roles

    with _complaints():
        try:
            outcome = roles.grant(_url(), role)
        except roles.CannotGrant as refusal:
            typer.echo(str(refusal), err=True)
            raise typer.Exit(1) from None
    typer.echo(f"{role} {outcome}")


@commands.command()
def scale_out(
    extension: Annotated[Extension, typer.Argument(help="The extension to use.")],
    apply: Annotated[bool, typer.Option("--apply/--no-apply", help="Carry out the plan instead of printing it only.")] = False,
) -> None:
    """Store telemetry with TimescaleDB or Citus: print the plan, and carry it out with --apply.

    Each step is a transaction. Repeat the command after an interruption, after a restore, and after a change to the edition of
    TimescaleDB that compresses: it executes only the steps that are still necessary. With Citus, --apply ends with a trial: it
    writes, rolls up and reads values, and rolls back.
    """
    from gridfleet.domains.telemetry.hypertables import HYPERTABLES
    from gridfleet.kernel.db import citus
    from gridfleet.kernel.db import scale_out as scaling

    with _complaints():
        try:
            plan = (citus.plan if extension is Extension.CITUS else scaling.plan)(_url(), HYPERTABLES)
            if plan.limitation:
                typer.echo(plan.limitation)
            if not plan.steps:
                typer.echo(f"telemetry is stored with {extension} already")
            elif apply:
                scaling.apply(_url(), plan.steps, _print_step)
            else:
                for step in plan.steps:
                    _print_step(step)
                typer.echo(
                    "Nothing was changed. Stop all processes of the service, make a backup, and run the same command with"
                    " --apply."
                )
            if apply:
                if extension is Extension.CITUS:
                    _try_tables()
                if plan.steps:
                    typer.echo("done")
        except scaling.CannotScaleOut as refusal:
            typer.echo(f"cannot scale out: {refusal}", err=True)
            raise typer.Exit(1) from None


def _try_tables() -> None:
    import asyncio

    from gridfleet.domains.telemetry.trial import TrialFailed, try_tables
    from gridfleet.kernel.db import DatabaseError, open_database
    from gridfleet.kernel.db.scale_out import CannotScaleOut

    async def attempt() -> None:
        async with open_database(_url(), name="gridfleet-db", size=1) as database:
            await try_tables(database)

    try:
        asyncio.run(attempt())
    except (DatabaseError, TrialFailed) as error:
        raise CannotScaleOut(f"the tables are distributed, but a trial failed: {error}") from error
    typer.echo("a trial has written, rolled up and read values, and rolled back")


def _print_step(step: Step) -> None:
    typer.echo("\n".join((f"-- {step.purpose}", *(f"{statement};" for statement in step.statements))))


@commands.command()
def retention(
    organization: Annotated[str, typer.Argument(help="Slug of the organisation.")],
    raw_days: Annotated[int | None, typer.Option(min=1, max=_MOST_DAYS, help="Days to keep measured values.")] = None,
    minute_days: Annotated[int | None, typer.Option(min=1, max=_MOST_DAYS, help="Days to keep roll-ups of 1 minute.")] = None,
    quarter_days: Annotated[
        int | None, typer.Option(min=1, max=_MOST_DAYS, help="Days to keep roll-ups of 15 minutes.")
    ] = None,
) -> None:
    """Set how long an organisation keeps telemetry. Omitted options use the deployment's setting."""
    import asyncio

    from gridfleet.domains.telemetry.retention.limits import set_retention
    from gridfleet.kernel.db import open_database

    async def change() -> None:
        async with open_database(_url(), name="gridfleet-db", size=1) as database, database.transaction() as db:
            await set_retention(db, organization, raw_days=raw_days, minute_days=minute_days, quarter_days=quarter_days)

    try:
        asyncio.run(change())
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{organization}: set; applies from the next hourly run")


@contextmanager
def _complaints() -> Iterator[None]:
    """End the command with exit code 1 and one sentence if the database fails."""
    import psycopg
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        typer.echo(f"database error: {str(cause).strip()}", err=True)
        raise typer.Exit(1) from None


def _url() -> str:
    return database_url(load_settings())
