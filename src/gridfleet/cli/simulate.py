"""`gridfleet simulate`: a demo organisation with simulated plants."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridfleet.cli.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridfleet.simulator.faults import Fault
    from gridfleet.simulator.plan import Plan
    from gridfleet.simulator.plant_run import PlantResult

__all__ = ["register"]

_LONGEST_HISTORY_DAYS = 399
_UNITS = {"d": 1.0, "h": 1 / 24}
_MINUTES_AT_MOST = 2 * 24 * 60


def _days(text: str) -> float:
    """Return the days of a span: `30d`, `12h`, `1.5`."""
    digits, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "d")
    try:
        days = float(digits) * _UNITS[unit]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a span such as 30d or 12h") from None
    if not 0 <= days <= _LONGEST_HISTORY_DAYS:
        raise typer.BadParameter(f"{text} is not between 0 and {_LONGEST_HISTORY_DAYS} days")
    return days


def _usual_interval(days: float) -> int:
    """Return whole minutes in seconds, such that a plant sends at most as many snapshots as two days have minutes."""
    return 60 * max(1, ceil(days * 24 * 60 / _MINUTES_AT_MOST))


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command()(simulate)


def simulate(
    plants: Annotated[int, typer.Option(min=1, max=5_000, help="How many plants.")] = 20,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds of simulated time between snapshots.")] = 5,
    duration: Annotated[float | None, typer.Option(min=0, help="Seconds to send. Default: until Ctrl-C.")] = None,
    speed: Annotated[
        float,
        typer.Option(min=1, max=10_000, help="Speed of simulated time relative to real time, until it reaches the present."),
    ] = 1,
    history: Annotated[
        float,
        typer.Option(
            "--history",
            "--backfill",
            parser=_days,
            metavar="SPAN",
            help="The past to send first: 30d, 12h, or a number of days.",
        ),
    ] = "0",  # type: ignore[assignment] # what the parser reads
    history_interval: Annotated[
        float | None,
        typer.Option(
            "--history-interval",
            "--backfill-interval",
            min=1,
            help="Seconds between the snapshots of the past. Default: 60 for two days, in proportion more for a longer past.",
        ),
    ] = None,
    faults: Annotated[
        str, typer.Option(help="Faults to simulate, comma separated: bad-signature, clock-skew, counter-reset, gap; or all.")
    ] = "",
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for JSON lines about the plants and everything that was sent.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random plants and weather.")] = 1,
    organization: Annotated[
        str, typer.Option(help="Slug of the organisation to use. It is created if it does not exist.")
    ] = "demo",
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for credentials and queue files. [default: GRIDFLEET_HOME/simulator]"),
    ] = None,
    api: Annotated[
        str | None, typer.Option(envvar="GRIDFLEET_API", help="Address of the service. [default: the one on this machine]")
    ] = None,
    email: Annotated[str | None, typer.Option(envvar="GRIDFLEET_ADMIN_EMAIL", help="SuperAdmin to register with.")] = None,
    password: Annotated[
        str | None, typer.Option(envvar="GRIDFLEET_ADMIN_PASSWORD", help="Password of that SuperAdmin.")
    ] = None,
) -> None:
    """Register a demo organisation with plants and send simulated measurements over MQTT.

    Every plant has a cabinet, PV inverters, batteries and a grid meter. Plants use MTLS, TOKEN and PASSWORD in turn. Sun, load,
    batteries and grid are consistent, and counters match the power. A second run continues with the same plants. On the machine
    of `gridfleet up` no options are needed. Elsewhere, set --api, --email and --password.

    Ends with a table of what was sent. Exit code 1 if the broker did not confirm everything.
    """
    import asyncio

    from gridfleet.sdk.plant import PlantClientError
    from gridfleet.simulator.errors import SimulationError
    from gridfleet.simulator.plan import Plan

    settings = load_settings()
    plan = Plan(
        interval_ms=round(interval * 1000),
        duration_seconds=duration,
        speed=speed,
        history_days=history,
        history_interval_ms=round((history_interval or _usual_interval(history)) * 1000),
        faults=_faults(faults),
    )
    folder = state or settings.home / "simulator"
    credentials = (email, password) if email and password else _admin_of(settings.home, email)
    address = api or _address_on_this_machine(settings.home) or f"http://{_reachable(settings.http_host)}:{settings.http_port}"
    try:
        results = asyncio.run(_simulate(plan, plants, seed, organization, folder, ledger, address, *credentials))
    except (SimulationError, PlantClientError) as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    _show(results, ledger)
    if any(result.waiting or result.acknowledged < result.sent for result in results):
        raise typer.Exit(1)


async def _simulate(
    plan: "Plan",
    plants: int,
    seed: int,
    slug: str,
    folder: Path,
    ledger_path: Path | None,
    address: str,
    email: str,
    password: str,
) -> "list[PlantResult]":
    import asyncio
    import signal
    from datetime import UTC, datetime

    from gridfleet.protocol.envelope import format_time
    from gridfleet.simulator.fleet import design_fleet
    from gridfleet.simulator.ledger import Ledger
    from gridfleet.simulator.registration import RegisteredPlant, register
    from gridfleet.simulator.rest import Api
    from gridfleet.simulator.run import simulate
    from gridfleet.simulator.state import StateFolder

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        typer.echo("stopping …")
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):  # a second signal ends the process at once
            loop.remove_signal_handler(number)

    state = StateFolder(folder)
    async with Api(address, email, password) as api:
        registered_count = 0

        def registered(_: RegisteredPlant) -> None:
            nonlocal registered_count
            registered_count += 1
            if registered_count % max(10, plants // 10) == 0 or registered_count == plants:
                typer.echo(f"{registered_count} of {plants} plants registered")

        organization, fleet = await register(api, design_fleet(plants, seed), state, slug, registered)
        typer.echo(f"organisation {organization.slug}: {organization.id}")

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        with Ledger(ledger_path) as ledger:
            ledger.write(
                "run",
                api=api.base_url,
                organization={"id": organization.id, "slug": organization.slug},
                seed=seed,
                intervalSeconds=plan.interval_ms / 1000,
                faults=sorted(plan.faults),
                startedAt=format_time(datetime.now(UTC)),
            )
            results = await simulate(plan, fleet, state, ledger, api.base_url, stop, lambda text: typer.echo(text))
            ledger.write(
                "end",
                finishedAt=format_time(datetime.now(UTC)),
                snapshots=sum(result.sent for result in results),
                acknowledged=sum(result.acknowledged for result in results),
                refused=sum(result.refused for result in results),
                waiting=sum(result.waiting for result in results),
            )
    return results


def _faults(text: str) -> "frozenset[Fault]":
    from gridfleet.simulator.faults import Fault

    names = {name.strip() for name in text.split(",") if name.strip()}
    if names == {"all"}:
        return frozenset(Fault)
    unknown = names - {fault.value for fault in Fault}
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose from {', '.join(Fault)}", param_hint="--faults")
    return frozenset(Fault(name) for name in names)


def _admin_of(home: Path, email: str | None) -> tuple[str, str]:
    """Return e-mail and password of the SuperAdmin that `gridfleet up` created on this machine.

    Ends the command if there is none.
    """
    import msgspec

    path = home / "secrets" / "admin.json"
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        if email in (None, kept["email"]):
            return kept["email"], kept["password"]
    except (OSError, msgspec.DecodeError, KeyError):
        pass
    typer.secho(
        "no login: give --email and --password, or set GRIDFLEET_ADMIN_EMAIL and GRIDFLEET_ADMIN_PASSWORD; "
        f"{path} does not contain the login of a generated SuperAdmin.",
        fg="red",
        err=True,
    )
    raise typer.Exit(2)


def _address_on_this_machine(home: Path) -> str | None:
    """Return the API's address from the file that a running `gridfleet up` keeps; None if there is none."""
    import msgspec

    try:
        run = msgspec.json.decode((home / "run.json").read_bytes())
        return str(run["urls"]["api"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None


def _reachable(host: str) -> str:
    """Return an address to connect to, given the host that the service listens on."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - nothing is bound


def _caption(dates: set[str]) -> str:
    energies = f"; energies of {max(dates)} (UTC) in kWh" if dates else ""
    return f"confirmed by the broker; wrong: made to be refused{energies}"


def _show(results: "Sequence[PlantResult]", ledger: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    dates = {result.date for result in results if result.date}
    table = Table(title="What was sent", caption=_caption(dates))
    for name in ("plant", "id", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("devices", "snapshots", "confirmed", "wrong", "waiting", "produced", "imported", "exported"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.serial_number,
            result.plant_id,
            result.auth_method,
            *(str(number) for number in (result.devices, result.sent, result.acknowledged, result.refused, result.waiting)),
            *(f"{energy:.3f}" for energy in (result.produced, result.imported, result.exported)),
        )
    totals = [sum(getattr(result, name) for result in results) for name in ("sent", "acknowledged", "refused", "waiting")]
    table.add_section()
    table.add_row("all", "", "", str(sum(result.devices for result in results)), *map(str, totals))
    # Ids and numbers must be complete for copying: a narrow terminal or a pipe must not truncate them.
    console = Console(width=max(Console().width, 150))
    console.print(table)
    if ledger is not None:
        console.print(f"ledger: {ledger}", soft_wrap=True)
