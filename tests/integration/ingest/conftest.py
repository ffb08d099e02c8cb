"""The pipeline by itself."""

import pytest

from gridfleet.kernel.db import Database
from support.clients.ingest_bench import Bench


@pytest.fixture
def bench(database: Database) -> Bench:
    """A pipeline over the test's own database."""
    return Bench(database)
