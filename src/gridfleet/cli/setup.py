"""`gridfleet setup`: the steps of `gridfleet up` that load the service's code, each in a process of its own.

`up` runs as long as the service and stays small because these processes end. Results are printed as one line of JSON.
"""

import asyncio
from typing import TYPE_CHECKING

import typer

from gridfleet.cli.settings import load_settings
from gridfleet.kernel.settings import Settings

if TYPE_CHECKING:
    from gridfleet.kernel.security.keyring import Keyring

__all__ = ["commands"]

commands = typer.Typer(help="Prepare servers of your own. `gridfleet up` does this automatically.", no_args_is_help=True)


@commands.command()
def database() -> None:
    """Migrate and seed the database, create authority, TLS files and first SuperAdmin. Prints {adminEmail, adminPassword}."""
    import json

    from gridfleet.kernel.db.migrate import migrate
    from gridfleet.kernel.logging import configure_logging
    from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

    settings = load_settings()
    configure_logging(settings.log_level, json=settings.log_format == "json")
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    migrate(settings.secret("database_url").get_secret_value())
    try:
        email, password = asyncio.run(_fill(settings, keyring))
    except (DecryptionFailed, UnknownKeyVersion) as error:
        typer.echo(f"the keyring (GRIDFLEET_KEYS, else secrets/keys) does not belong to this database: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(json.dumps({"adminEmail": email, "adminPassword": password}))


@commands.command()
def broker() -> None:
    """Declare the exchanges and queues of the service. Refuses a broker to which plants cannot log in."""
    from gridfleet.domains.plants.topology import declare

    settings = load_settings()
    urls = [settings.secret(name).get_secret_value() for name in ("broker_url", "broker_management_url")]
    if complaint := asyncio.run(_unusable_because(urls[1])):
        typer.echo(complaint, err=True)
        raise typer.Exit(1)
    asyncio.run(declare(*urls, shards=settings.ingest_shards, queue_type=settings.broker_queue_type, add_shards=False))


@commands.command()
def unrouted() -> None:
    """Declare what `setup broker` declares, then return the messages of the queue `unrouted` to the exchange `amq.topic`.

    See docs/metrics.md, GridfleetUnroutedMessages. Run it while the service runs, with its settings: for `gridfleet up` its
    GRIDFLEET_HOME and ports. Each message is published with its routing key and then removed from the queue. After an
    interruption, run it again.
    """
    import httpx
    from aiormq.exceptions import AMQPError

    from gridfleet.domains.plants.topology import declare, return_unrouted

    settings = load_settings()

    async def run() -> int:
        url, management_url = _broker_urls(settings)
        await declare(
            url, management_url, shards=settings.ingest_shards, queue_type=settings.broker_queue_type, add_shards=False
        )
        return await return_unrouted(url)

    try:
        typer.echo(f"{asyncio.run(run())} messages returned")
    except (AMQPError, OSError, httpx.HTTPError) as error:
        typer.echo(f"the broker cannot be used; `gridfleet doctor` names the cause: {type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _broker_urls(settings: Settings) -> tuple[str, str]:
    """Return the URLs of AMQP and of the management API: of the settings, else of the private node."""
    from gridfleet.local.broker.private_node import PrivateBroker

    if settings.broker_url is None:
        node = PrivateBroker(settings)
        return node.url, node.management_url
    return settings.secret("broker_url").get_secret_value(), settings.secret("broker_management_url").get_secret_value()


async def _unusable_because(management_url: str) -> str | None:
    from gridfleet.kernel.broker.management import open_management
    from gridfleet.local.broker.plugins import unusable_because

    async with open_management(management_url) as management:
        return unusable_because(await management.overview())


async def _fill(settings: Settings, keyring: "Keyring") -> tuple[str | None, str | None]:
    """Return the first SuperAdmin's e-mail and generated password; (None, None) if one existed already."""
    from gridfleet.domains.device_templates.catalogue import seed_system_templates
    from gridfleet.domains.identity.bootstrap import ensure_first_super_admin
    from gridfleet.domains.plants.certificates.authority import ensure_authority
    from gridfleet.kernel.db import open_database
    from gridfleet.local.broker.configuration import reachable_host
    from gridfleet.local.broker.server_certificate import write_server_certificate

    url = settings.secret("database_url").get_secret_value()
    async with open_database(url, name="gridfleet-setup", size=2) as opened, opened.transaction() as db:
        await seed_system_templates(db)
        authority = await ensure_authority(db, keyring)
        password = settings.admin_password.get_secret_value() if settings.admin_password else None
        admin = await ensure_first_super_admin(db, settings.admin_email, password)
    hosts = [*settings.broker_hosts, "localhost", "127.0.0.1", "::1", reachable_host(settings.mqtt_bind)]
    write_server_certificate(settings.home / "ca", authority, hosts)
    return (admin.email, admin.generated_password) if admin else (None, None)
