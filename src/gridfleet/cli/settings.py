"""The settings of a command, with complaints that name the environment variable."""

import sys

import typer

from gridfleet.kernel.settings import Settings

__all__ = ["load_settings"]


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
