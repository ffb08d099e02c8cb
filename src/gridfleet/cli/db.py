"""`gridfleet db`: the database's schema."""

import typer

from gridfleet.cli.settings import load_settings

__all__ = ["commands"]

commands = typer.Typer(help="The database's schema.", no_args_is_help=True)


@commands.command()
def upgrade() -> None:
    """Brings the database of GRIDFLEET_DATABASE_URL to this release's schema."""
    from gridfleet.kernel.db.migrate import migrate

    typer.echo(f"schema at revision {migrate(_url())}")


@commands.command()
def check() -> None:
    """Says whether the schema is this release's: exit code 0 if so, 1 if not."""
    from gridfleet.kernel.db.migrate import head_revision, revision_at

    found, wanted = revision_at(_url()), head_revision()
    typer.echo(f"schema at revision {found}, this release needs {wanted}")
    if found != wanted:
        raise typer.Exit(1)


def _url() -> str:
    try:
        return load_settings().secret("database_url").get_secret_value()
    except LookupError as error:
        raise typer.BadParameter("set GRIDFLEET_DATABASE_URL (gridfleet up migrates its own database)") from error
