"""What `gridfleet up` starts on a machine with many CPUs."""

import os
from pathlib import Path

import pytest

from gridfleet.local.machine import database_connections, ingest_processes
from support.servers.free_ports import settings_at

INGEST_CONNECTIONS = 4 + 1 + 1
"""Pool, leases and notifications."""
OTHER_CONNECTIONS = (4 + 2) + (16 + 3 + 6) + (5 + 4)
"""Of serve, gateway and jobs, with those of their own for leases, notifications and the job queue, without what is set."""
OPERATORS_CONNECTIONS = 20
"""Backup, doctor, psql, and the three that PostgreSQL reserves."""


@pytest.fixture(autouse=True)
def _many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 256)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(128)))


def test_the_cores_that_this_process_may_use_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 7, 9, 11})
    assert settings_at(tmp_path).ingest_processes == 2


@pytest.mark.parametrize(("changes", "wanted"), [({}, 8), ({"ingest_shards": 16}, 16), ({"ingest_processes": 20}, 8)])
def test_there_are_at_most_as_many_ingest_processes_as_queues(tmp_path: Path, changes: dict[str, int], wanted: int) -> None:
    assert ingest_processes(settings_at(tmp_path, **changes)) == wanted


@pytest.mark.parametrize("changes", [{}, {"ingest_shards": 64}, {"database_pool_size": 60, "roll_up_connections": 64}])
def test_the_embedded_database_has_enough_connections(tmp_path: Path, changes: dict[str, int]) -> None:
    settings = settings_at(tmp_path, **changes)
    needed = ingest_processes(settings) * INGEST_CONNECTIONS + OTHER_CONNECTIONS + OPERATORS_CONNECTIONS
    assert database_connections(settings) >= needed + settings.database_pool_size + settings.roll_up_connections
