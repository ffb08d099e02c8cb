"""`gridfleet doctor`: check every part that the service needs, and name a remedy for each problem."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gridfleet.cli.settings import load_settings

if TYPE_CHECKING:
    from gridfleet.cli.doctor.models import Examination, Finding
    from gridfleet.kernel.settings import Settings

__all__ = ["examination", "examine", "register"]

_COLOURS: Final = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command()(doctor)


def doctor(
    json: Annotated[bool, typer.Option("--json/--no-json", help="Print the findings as a JSON array.")] = False,
    min_free_gib: Annotated[
        float, typer.Option(min=0, help="Warn below this much free disk space, fail below a quarter of it.")
    ] = 2.0,
) -> None:
    """Examine a running service: database, migrations, broker, logins, clocks, certificates, mail, disk, secrets.

    The command uses the settings of the service. Run it on the same machine, as the same user, with the same environment: for
    `gridfleet up` its GRIDFLEET_HOME and ports, for servers of your own their URLs. It changes nothing and sends no mail. Exit
    code 1 if a check failed, else 0.
    """
    import msgspec

    findings = _findings(load_settings(), min_free_gib)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(findings)))
    else:
        _print(findings)
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(1)


def _findings(settings: "Settings", min_free_gib: float) -> "list[Finding]":
    from gridfleet.cli.doctor.models import fail
    from gridfleet.local.postgres import EmbeddedPostgresError

    try:
        examined = examination(settings, min_free_gib)
    except EmbeddedPostgresError as error:
        return [fail("home folder", str(error), "follow the message: other users who reach the socket can open the database")]
    except OSError as error:
        return [fail("home folder", str(error), "run this as the user of the service, and set GRIDFLEET_HOME to its folder")]
    return asyncio.run(examine(examined))


def examination(settings: "Settings", min_free_gib: float = 2.0) -> "Examination":
    """Return the addresses of the deployment's parts from the settings."""
    from gridfleet.cli.doctor.models import Examination
    from gridfleet.local.broker.private_node import PrivateBroker
    from gridfleet.local.postgres import EmbeddedPostgres

    home = settings.home.resolve()
    settings = settings.model_copy(update={"home": home})
    database = broker = management = None
    if settings.database_url is not None:
        database = settings.secret("database_url").get_secret_value()
    elif (home / "postgres" / "PG_VERSION").exists():
        database = EmbeddedPostgres(home).url
    if settings.broker_url is not None:
        broker = settings.secret("broker_url").get_secret_value()
        url = settings.broker_management_url
        management = None if url is None else settings.secret("broker_management_url").get_secret_value()
    elif (home / "secrets" / "broker_password").exists():
        node = PrivateBroker(settings)
        broker, management = node.url, node.management_url
    return Examination(settings, home, database, broker, management, min_free_bytes=int(min_free_gib * (1 << 30)))


async def examine(examined: "Examination") -> "list[Finding]":
    """Return all findings, in the order in which the parts depend on each other."""
    from gridfleet.cli.doctor import broker, database, environment, logins

    checks: dict[str, tuple[str, Callable[[Examination], Awaitable[Finding | list[Finding]]]]] = {
        "database": ("GRIDFLEET_DATABASE_URL", database.check_database),
        "broker": ("GRIDFLEET_BROKER_URL and GRIDFLEET_BROKER_MANAGEMENT_URL", broker.check_broker),
        "authorisation requests": ("GRIDFLEET_INTERNAL_HOST, _PORT and _SECRET", broker.check_auth_listener),
        "broker logins": ("GRIDFLEET_BROKER_URL, GRIDFLEET_MQTT_HOST and GRIDFLEET_MQTT_PORT", logins.check_logins),
        "certificates": ("GRIDFLEET_MQTT_HOST and the ports of MQTT, AMQP and HTTP", environment.check_certificates),
        "mail": ("GRIDFLEET_SMTP_URL", environment.check_mail),
        "redis": ("GRIDFLEET_REDIS_URL", environment.check_redis),
        "disk": ("GRIDFLEET_HOME", environment.check_disk),
        "file permissions": ("GRIDFLEET_HOME", environment.check_permissions),
    }
    found = environment.check_authority_file(examined)
    for name, (settings, check) in checks.items():
        try:
            findings = await check(examined)
        except Exception as error:  # an error of this part or of its address; the other parts are still checked
            findings = _not_examined(name, settings, error)
        found += findings if isinstance(findings, list) else [findings]
    found += [environment.check_time_zones(), environment.check_variables(os.environ)]
    return found


def _not_examined(name: str, settings: str, error: Exception) -> "Finding":
    from gridfleet.cli.doctor.models import fail
    from gridfleet.kernel.outages import trouble_outside

    # An error about an address may contain the address, including its password.
    reason = trouble_outside(error) or f"{type(error).__name__} at an address that cannot be used"
    return fail(name, f"cannot be examined: {reason}", f"check {settings}")


def _print(findings: "list[Finding]") -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark = typer.style(f"{finding.status.value:<4}", fg=_COLOURS[finding.status.value])
        typer.echo(f"{mark}  {finding.check:<{width}}  {finding.found}")
        if finding.remedy is not None:
            typer.echo(f"{'':<{width + 6}}  → {finding.remedy}")
