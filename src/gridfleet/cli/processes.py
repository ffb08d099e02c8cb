"""`gridfleet serve`, `ingest`, `gateway`, `jobs`: each runs one process of a larger installation."""

from typing import Annotated

import typer

from gridfleet.cli.settings import load_settings

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Add the commands."""
    for command in (serve, ingest, gateway, jobs):
        application.command()(command)


def serve(
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes that share the ports. More than one needs Redis.")
    ] = 1,
    shared_ports: Annotated[bool, typer.Option("--shared-ports", hidden=True)] = False,
) -> None:
    """Run the REST API and the internal listener for the broker's authorisation requests."""
    if workers > 1:
        from gridfleet.cli.workers import run_workers

        raise typer.Exit(run_workers(load_settings(), workers))
    from gridfleet.processes import run_serve

    run_serve(load_settings(), shared_ports=shared_ports)


def ingest() -> None:
    """Store telemetry, status and acknowledgements from the broker in the database. Run one process for every two cores."""
    from gridfleet.processes import run_ingest

    run_ingest(load_settings())


def gateway() -> None:
    """Maintain the broker's vhosts and queues, and exchange commands and events with plants and partners."""
    from gridfleet.processes import run_gateway

    run_gateway(load_settings())


def jobs() -> None:
    """Run queued and periodic jobs."""
    from gridfleet.processes import run_jobs

    run_jobs(load_settings())
