"""Metrics of commands."""

from collections.abc import Iterable

from gridfleet.domains.plants.commands.models import Transition
from gridfleet.kernel import metrics

__all__ = ["count_committed"]


def count_committed(transitions: Iterable[Transition]) -> None:
    """Count steps whose transaction has committed."""
    for step in transitions:
        metrics.COMMANDS.labels("LATE" if step.late else step.status).inc()
