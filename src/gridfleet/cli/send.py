"""`gridfleet send`: values from the command line, sent as a plant."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gridfleet.protocol.envelope import FieldValue, Snapshot
    from gridfleet.sdk.plant import Package

__all__ = ["register"]


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command()(send)


def send(
    package: Annotated[Path, typer.Argument(dir_okay=False, help="The plant's provisioning package, a JSON file.")],
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="DEVICE.FIELD=VALUE",
            help="What is measured, such as BAT1.soc=61. FIELD=VALUE is one of the plant itself; if it has dots, .FIELD=VALUE.",
        ),
    ],
    timeout: Annotated[
        float, typer.Option(min=1, max=600, help="Seconds within which the broker must confirm the message.")
    ] = 20,
) -> None:
    """Send one message as a plant, to try its credentials, devices and templates.

    The message is signed and has the current time. The plant is ONLINE while the command runs, and OFFLINE afterwards. If the
    plant's own software is connected, the broker disconnects it. Commands that arrive while this command runs are rejected.

    The broker's confirmation means that the broker has the message. The console, or GET
    /api/v1/plants/{id}/refused-messages, shows whether the service accepted it.
    """
    import asyncio

    from gridfleet.sdk.plant import Package, PlantClientError

    snapshot = _snapshot(values)
    try:
        asyncio.run(_send(Package.load(package), snapshot, timeout))
    except PlantClientError as error:
        typer.secho(str(error), fg="red", err=True)
        raise typer.Exit(1) from None
    except TimeoutError:
        typer.secho(f"The broker has not confirmed the message within {timeout:g} s.", fg="red", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Sent, and confirmed by the broker: {', '.join(values)}")


async def _send(package: "Package", snapshot: "Snapshot", timeout: float) -> None:
    from tempfile import TemporaryDirectory

    from gridfleet.sdk.plant import Options, PlantClient

    options = Options(refusals_before_giving_up=1, stop_timeout_seconds=1)
    with TemporaryDirectory(prefix="gridfleet-send-") as folder:
        async with PlantClient(package, queue_path=Path(folder) / "queue", options=options) as client:
            await client.send(snapshot)
            await client.drain(timeout_seconds=timeout)


def _snapshot(values: list[str]) -> "Snapshot":
    """Return a snapshot of these values at the current time.

    Raises:
        typer.BadParameter: One of them is not a field with a value.
    """
    from datetime import UTC, datetime

    import msgspec

    from gridfleet.protocol.envelope import DeviceEntry, Snapshot

    fields: dict[str, dict[str, FieldValue]] = {}
    for text in values:
        name, equals, value = text.partition("=")
        device, dot, field = name.partition(".")  # a device's name has no dot, a field may have several
        device, field = (device, field) if dot else ("", device)
        if not equals or not field:
            raise typer.BadParameter(f"{text!r} is not DEVICE.FIELD=VALUE or FIELD=VALUE")
        try:
            fields.setdefault(device, {})[field] = msgspec.json.decode(value.encode(), type=int | float | bool | None)
        except msgspec.DecodeError:
            raise typer.BadParameter(f"{value!r} is not a number, true, false or null") from None
    of_plant = fields.pop("", {})
    return Snapshot(datetime.now(UTC), fields=of_plant, devices=[DeviceEntry(*device) for device in fields.items()])
