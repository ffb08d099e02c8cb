"""Execution of a simulation: run its plants together and report their progress."""

import asyncio
import resource
from collections.abc import Sequence
from typing import Final

from gridfleet.simulator.ledger import Ledger
from gridfleet.simulator.plan import Plan
from gridfleet.simulator.plant import SimulatedPlant
from gridfleet.simulator.plant_run import PlantResult, PlantRun, Progress
from gridfleet.simulator.registration import RegisteredPlant
from gridfleet.simulator.state import StateFolder

__all__ = ["simulate"]

_PROGRESS_SECONDS: Final = 15
_FILES_OF_A_PLANT: Final = 4


async def simulate(
    plan: Plan,
    registered: Sequence[RegisteredPlant],
    state: StateFolder,
    ledger: Ledger,
    base_url: str,
    stop: asyncio.Event,
    report: Progress,
) -> list[PlantResult]:
    """Simulate all plants until the plan's duration ends or `stop` is set. Returns the result of each plant.

    Args:
        plan: The parameters of the simulation.
        registered: The plants.
        state: The folder for queues and states.
        ledger: The ledger of what was sent.
        base_url: The service, where TOKEN plants request their tokens.
        stop: Ends the simulation when set.
        report: Receives lines of progress.

    Raises:
        PlantClientError: If a queue cannot be used, for example because another simulation uses it.
    """
    _allow_open_files(len(registered) * _FILES_OF_A_PLANT)
    runs = [
        PlantRun(
            plan,
            number,
            len(registered),
            SimulatedPlant(plant, state.load_plant(plant.id)),
            state,
            ledger,
            base_url,
            stop,
            report,
        )
        for number, plant in enumerate(registered)
    ]
    progress = asyncio.create_task(_watch([run.result for run in runs], ledger, report))
    try:
        async with asyncio.TaskGroup() as tasks:
            for run in runs:
                tasks.create_task(run.run())
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    finally:
        progress.cancel()
    return [run.result for run in runs]


async def _watch(results: Sequence[PlantResult], ledger: Ledger, report: Progress) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        ledger.flush()
        connected = sum(result.connected for result in results)
        sent, acknowledged = sum(result.sent for result in results), sum(result.acknowledged for result in results)
        report(f"{connected} of {len(results)} plants connected, {sent} snapshots sent, {acknowledged} acknowledged")


def _allow_open_files(needed: int) -> None:
    """Raise the limit of open files of this process. A plant has a socket and a queue file with its log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
