"""`gridfleet up`: the whole service on one machine.

It starts the parts in the order of their dependencies, keeps them running, and stops them in reverse order. It keeps no state
of its own: any part, including this command, can be killed and started again.
"""

import typer

from gridfleet.cli.settings import load_settings

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command()(up)


def up() -> None:
    """Start the whole service on this machine and keep it running.

    Starts its own PostgreSQL and a private RabbitMQ node, and the API, ingest, gateway and jobs processes. The first start
    creates keys, certificates and the first SuperAdmin. Ctrl-C stops everything. The next start continues with all data. A
    second Ctrl-C kills the processes that have not stopped yet.

    Settings are environment variables. GRIDFLEET_HOME: the folder of all state (.gridfleet). GRIDFLEET_ADMIN_EMAIL and
    GRIDFLEET_ADMIN_PASSWORD: the first SuperAdmin. GRIDFLEET_HTTP_PORT, _MQTT_PORT, _MQTTS_PORT, _AMQPS_PORT and others:
    the ports. GRIDFLEET_DATABASE_URL, GRIDFLEET_BROKER_URL with GRIDFLEET_BROKER_MANAGEMENT_URL, GRIDFLEET_REDIS_URL:
    servers to use instead of the embedded parts.
    """
    import asyncio

    from gridfleet.local.machine import Machine

    raise typer.Exit(asyncio.run(Machine(load_settings()).run()))
