"""The settings of a command, with error messages that name the environment variable, and its end with an error."""

import sys
from typing import NoReturn

import typer

from gridfleet.cli.wording import what_is_wrong
from gridfleet.kernel.settings import Settings

__all__ = ["database_url", "fail", "load_settings"]


def load_settings() -> Settings:
    """Return the settings of this process. Ends the command with exit code 2 if one of them is invalid."""
    from pydantic import ValidationError

    try:
        return Settings()
    except ValidationError as error:
        complaints: dict[str, str] = {}
        for complaint in error.errors(include_url=False, include_input=False):
            # The first element is the setting; the others are the path inside its type.
            name = f"GRIDFLEET_{str(complaint['loc'][0]).upper()}: " if complaint["loc"] else ""
            complaints.setdefault(name, what_is_wrong(complaint))
        for name, text in complaints.items():
            print(f"{name}{text}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(2) from None


def database_url(settings: Settings) -> str:
    """Return GRIDFLEET_DATABASE_URL, or the URL of a running `gridfleet up`. Ends the command if there is neither."""
    from gridfleet.local.postgres import EmbeddedPostgres

    if settings.database_url is not None:
        return settings.secret("database_url").get_secret_value()
    if not (settings.home / "run.json").exists():
        typer.echo(
            f"no database is running for {settings.home.resolve()}: start `gridfleet up` with this home folder"
            " (GRIDFLEET_HOME), or set GRIDFLEET_DATABASE_URL",
            err=True,
        )
        raise typer.Exit(2)
    return EmbeddedPostgres(settings.home.resolve()).url


def fail(text: str) -> NoReturn:
    """Print the reason and end the command with exit code 1."""
    typer.echo(text, err=True)
    raise typer.Exit(1)
