"""`gridfleet db`: the database's schema."""

import typer

from gridfleet.cli.settings import load_settings

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
    """GRIDFLEET_DATABASE_URL, else the embedded database of a running `gridfleet up`."""
    from gridfleet.kernel.db.embedded import EmbeddedPostgres

    settings = load_settings()
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    if not (settings.home / "run.json").exists():
        raise typer.BadParameter(f"set GRIDFLEET_DATABASE_URL, or run `gridfleet up` in {settings.home.resolve()} first")
    return EmbeddedPostgres(settings.home.resolve()).url
