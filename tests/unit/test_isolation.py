"""One item that fails by itself is set aside; all others are processed, in their order, each once."""

from collections.abc import Sequence

import pytest
from aiormq.exceptions import AMQPConnectionError, ChannelInvalidStateError
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import DataError, OperationalError
from psycopg.errors import AdminShutdown, DatatypeMismatch, DeadlockDetected, DiskFull, QueryCanceled

from gridfleet.kernel import metrics
from gridfleet.kernel.isolation import is_poison, isolate, reason_of
from support.builders.counters import value_of


@settings(max_examples=30)
@given(st.lists(st.booleans(), max_size=40))
async def test_the_poison_alone_is_set_aside(poisonous: list[bool]) -> None:
    processed: list[int] = []
    refused: list[int] = []

    async def process(items: Sequence[int]) -> None:
        if any(poisonous[item] for item in items):
            raise ValueError("poison")
        processed.extend(items)

    async def set_aside(item: int, error: Exception) -> None:
        assert reason_of(error) == "ValueError: poison"
        refused.append(item)

    before = counted()
    await isolate("ingest", range(len(poisonous)), process, set_aside)

    assert refused == [item for item, poison in enumerate(poisonous) if poison]
    assert processed == [item for item, poison in enumerate(poisonous) if not poison]
    assert counted() - before == len(refused)


async def test_an_outage_sets_nothing_aside() -> None:
    async def process(items: Sequence[int]) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    async def set_aside(item: int, error: Exception) -> None:
        raise AssertionError("nothing is to blame")

    before = counted()
    with pytest.raises(OperationalError):
        await isolate("ingest", range(8), process, set_aside)
    assert counted() == before


async def test_a_statement_that_takes_too_long_separates_the_items() -> None:
    processed: list[int] = []
    refused: list[int] = []

    async def process(items: Sequence[int]) -> None:
        if 3 in items:
            raise QueryCanceled("canceling statement due to statement timeout")
        processed.extend(items)

    async def set_aside(item: int, error: Exception) -> None:
        refused.append(item)

    await isolate("ingest", range(8), process, set_aside)
    assert (processed, refused) == ([0, 1, 2, 4, 5, 6, 7], [3])


async def test_what_cannot_even_be_set_aside_holds_up_nothing() -> None:
    processed: list[int] = []

    async def process(items: Sequence[int]) -> None:
        if 3 in items:
            raise KeyError("poison")
        processed.extend(items)

    async def set_aside(item: int, error: Exception) -> None:
        raise DataError("the reason cannot be stored either")

    await isolate("ingest", range(8), process, set_aside)
    assert processed == [0, 1, 2, 4, 5, 6, 7]


def test_errors_of_many_tasks_are_an_outage_if_one_is() -> None:
    assert is_poison(ExceptionGroup("", [ValueError(), DataError()]))
    assert not is_poison(ExceptionGroup("", [ValueError(), ConnectionError()]))


def test_a_slow_or_blocked_statement_is_the_fault_of_an_item_that_is_tried_again() -> None:
    for error in (QueryCanceled(), DeadlockDetected()):
        assert not is_poison(error)
        assert is_poison(error, is_retried=True)
    for error in (OperationalError("server closed the connection"), DiskFull(), AdminShutdown(), ConnectionError()):
        assert not is_poison(error)
        assert not is_poison(error, is_retried=True)
    for error in (DataError(), DatatypeMismatch(), ValueError()):
        assert is_poison(error)
        assert is_poison(error, is_retried=True)


def test_a_closed_channel_is_an_outage() -> None:
    for error in (AMQPConnectionError(), ChannelInvalidStateError()):
        assert not is_poison(error)


def test_a_reason_can_be_stored() -> None:
    assert reason_of(ValueError("a\0b\ud800\nsecond line")) == "ValueError: a\ufffdb?"


def counted() -> float:
    return value_of(metrics.SET_ASIDE.labels("ingest"))
