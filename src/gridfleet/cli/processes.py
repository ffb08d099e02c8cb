"""`gridfleet serve`, `ingest`, `gateway`, `jobs`: one process of a larger install each."""

from typing import Annotated

import typer

from gridfleet.cli.settings import load_settings

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Adds the commands."""
    for command in (serve, ingest, gateway, jobs):
        application.command()(command)


def serve(
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the ports; more than one needs Redis.")] = 1,
    shared_ports: Annotated[bool, typer.Option("--shared-ports", hidden=True)] = False,
) -> None:
    """REST API, and the internal listener that answers the broker's questions."""
    if workers > 1:
        from gridfleet.cli.workers import run_workers

        raise typer.Exit(run_workers(load_settings(), workers))
    from gridfleet.processes import run_serve

    run_serve(load_settings(), shared_ports=shared_ports)


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
