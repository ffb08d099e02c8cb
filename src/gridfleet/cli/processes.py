"""`gridfleet serve`, `ingest`, `gateway`, `jobs`: one process of a larger install each."""

import typer

from gridfleet.cli.settings import load_settings

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Adds the commands."""
    for command in (serve, ingest, gateway, jobs):
        application.command()(command)


def serve() -> None:
    """REST API, and the internal listener that answers the broker's questions."""
    from gridfleet.processes import run_serve

    run_serve(load_settings())


def ingest() -> None:
    """Telemetry, status and acknowledgements from the broker to the database. Run one per core."""
    from gridfleet.processes import run_ingest

    run_ingest(load_settings())


def gateway() -> None:
    """The broker's upkeep, and what leaves through it."""
    from gridfleet.processes import run_gateway

    run_gateway(load_settings())


def jobs() -> None:
    """Queued and periodic work."""
    from gridfleet.processes import run_jobs

    run_jobs(load_settings())
