"""Reference of the REST API: the list of routes, and the OpenAPI document."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Add `routes` and `openapi` to the command line."""
    application.command("routes")(routes)
    application.command("openapi")(openapi)


def routes() -> None:
    """Print every route with the file and line of its handler."""
    from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers

    import_handlers()
    found = sorted(ENDPOINTS.values(), key=lambda endpoint: (endpoint.path, endpoint.method))
    width = max(len(endpoint.path) for endpoint in found)
    for endpoint in found:
        code = endpoint.handler.__code__
        typer.echo(f"{endpoint.method:<6} {endpoint.path:<{width}} {_shown(Path(code.co_filename))}:{code.co_firstlineno}")


def openapi(
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write to instead of standard output.")] = None,
) -> None:
    """Print the OpenAPI 3.1 document of the REST API as JSON, identical to the served one. No service needs to run."""
    from gridfleet.api.http.endpoint import import_handlers
    from gridfleet.api.openapi import document_as_json
    from gridfleet.cli.settings import load_settings

    import_handlers()
    document = document_as_json(load_settings().base_url)
    if output is None:
        typer.echo(document, nl=False)
    else:
        output.write_bytes(document)


def _shown(file: Path) -> Path:
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
