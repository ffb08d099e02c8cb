"""`gridfleet db`: the database's schema."""

import typer

from gridfleet.cli.settings import database_url, load_settings

__all__ = ["commands"]

commands = typer.Typer(help="The database's schema.", no_args_is_help=True)


@commands.command()
def upgrade() -> None:
    """Brings the database to this release's schema."""
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
    return database_url(load_settings())
