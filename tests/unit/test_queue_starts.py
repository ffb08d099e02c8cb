"""Where reads of the queue of partner events begin."""

import pytest

from gridfleet.domains.partner_events import queue_starts
from gridfleet.domains.partner_events.queue_starts import QueueStarts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(queue_starts.time, "monotonic", lambda: now[0])
    return now


def test_a_first_id_becomes_the_start_when_lower_ones_have_been_committed(clock: list[float]) -> None:
    starts = QueueStarts[str]()
    starts.note({"a": 5, "b": 7})
    clock[0] += 9.9
    starts.note({"a": 50})
    assert starts.start("a") == 0
    clock[0] += 0.1
    starts.note({"a": 60})
    assert (starts.start("a"), starts.start("b")) == (5, 0)
    clock[0] += 10
    starts.note({"a": 70, "b": 8})
    assert (starts.start("a"), starts.start("b"), starts.start("c")) == (60, 7, 0)


def test_an_id_that_was_committed_late_becomes_the_start_at_once(clock: list[float]) -> None:
    starts = QueueStarts[str]()
    for first in (5, 6, 7):
        starts.note({"a": first})
        clock[0] += 10
    assert starts.start("a") == 6
    starts.note({"a": 8})
    assert starts.start("a") == 7
    starts.note({"a": 3})
    assert starts.start("a") == 3
    clock[0] += 10
    starts.note({"a": 3})
    assert starts.start("a") == 3


def test_a_start_stays_below_an_event_that_was_committed_meanwhile(clock: list[float]) -> None:
    """It was the id that came first ten seconds ago, also for an organisation that had not been looked at since then."""
    starts = QueueStarts[str]()
    starts.note({"a": 101})
    clock[0] += 10
    starts.note({"b": 200})
    assert starts.start("a") == 0
    clock[0] += 20
    starts.note({"a": 100})
    assert starts.start("a") == 100
