"""The settings of a command, with complaints that name the environment variable."""

import sys

import typer

from gridfleet.kernel.settings import Settings

__all__ = ["database_url", "load_settings"]


def load_settings() -> Settings:
    """The settings of this process. Ends the command with exit code 2 when one of them is not valid."""
    from pydantic import ValidationError

    try:
        return Settings()
    except ValidationError as error:
        for complaint in error.errors(include_url=False, include_input=False):
            name = "_".join(str(part) for part in complaint["loc"]).upper()
            print(f"GRIDFLEET_{name}: {complaint['msg']}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(2) from None


def database_url(settings: Settings) -> str:
    """GRIDFLEET_DATABASE_URL, else the embedded database of a running `gridfleet up`. Ends the command without either."""
    from gridfleet.kernel.db.embedded import EmbeddedPostgres

    if settings.database_url is not None:
        return settings.secret("database_url").get_secret_value()
    if not (settings.home / "run.json").exists():
        raise typer.BadParameter(f"set GRIDFLEET_DATABASE_URL, or run `gridfleet up` in {settings.home.resolve()} first")
    return EmbeddedPostgres(settings.home.resolve()).url
