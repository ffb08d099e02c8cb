"""The doctor's finding about synchronous standbys."""

from datetime import UTC, datetime

import pytest

from gridfleet.cli.doctor.database import standby_finding
from gridfleet.kernel.db.inspection import ServerFacts


@pytest.mark.parametrize(
    ("names", "states", "status"),
    [
        ("ANY 2 (db2, db3)", ["quorum", "quorum"], "ok"),
        ("ANY 2 (db2, db3)", ["quorum"], "fail"),
        ("FIRST 2 (db2, db3)", ["sync"], "fail"),
        ("first 2(db2,db3,db4)", ["sync", "sync", "potential"], "ok"),
        ("FIRST 2 (db2, db3, db4)", ["sync", "sync", "async"], "warn"),
        ("2 (db2, db3)", ["sync", "async"], "fail"),
        ("ANY 1 (db2, db3)", ["quorum", "quorum"], "ok"),
        ("ANY 1 (db2, db3)", ["quorum"], "warn"),
        ("ANY 1 (db2, db3)", ["potential"], "fail"),
        ("db2, db3", ["sync"], "warn"),
        ("db2, db3", ["sync", "potential"], "ok"),
        ('ANY 1 ("db,2", "db ""3""")', ["quorum", "quorum"], "ok"),
        ("ANY 2 (*)", ["quorum", "quorum"], "ok"),
        ("*", ["sync"], "ok"),
        ("*", [], "fail"),
        ("ANY 2 (db2, db3)", [None, None], "ok"),
        ("ANY 2 (db2, db3)", [None], "fail"),
    ],
)
def test_fewer_standbys_than_needed_or_listed_are_reported(names: str, states: list[str | None], status: str) -> None:
    facts = ServerFacts(170_000, "17", True, True, 1, 100, names, states, datetime.now(UTC))
    assert standby_finding(facts).status == status
