"""A command's life: whatever comes in whatever order, its history is a legal one."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgement, apply_acknowledgements
from gridfleet.domains.plants.commands.delivery import record_published, retry_wait
from gridfleet.domains.plants.commands.expiry import expire, expire_due
from gridfleet.domains.plants.commands.models import (
    OPEN,
    Acknowledgement,
    CommandLife,
    CommandReason,
    CommandStatus,
    Transition,
)
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import AckStatus

ISSUED = datetime(2026, 11, 20, 10, tzinfo=UTC)
WAY = ["PENDING", "SENT", "RECEIVED"]
ENDS = {"APPLIED", "REJECTED", "FAILED", "EXPIRED"}
OUT_OF_RANGE = CommandReason("OUT_OF_RANGE", "more than the battery can do")


def after(seconds: float) -> datetime:
    return ISSUED + timedelta(seconds=seconds)


def command(status: str = "SENT") -> CommandLife:
    sent = None if status == "PENDING" else after(1)
    return CommandLife(new_id(), new_id(), CommandStatus(status), ISSUED, after(30), sent_at=sent)


def word(life: CommandLife, status: str, reason: CommandReason | None = None) -> Acknowledgement:
    return Acknowledgement(life.id, life.plant_id, AckStatus(status), after(100), reason)


def names(steps: list[Transition]) -> list[str]:
    return [f"{step.status}{' late' * step.late}" for step in steps]


def test_received_and_applied() -> None:
    life, first = apply_acknowledgement(command(), word(command(), "RECEIVED"), after(2))
    life, second = apply_acknowledgement(life, word(life, "APPLIED"), after(3))

    assert names(first + second) == ["RECEIVED", "APPLIED"]
    assert (life.status, life.sent_at, life.received_at, life.finished_at) == ("APPLIED", after(1), after(2), after(3))


@pytest.mark.parametrize("said", ["REJECTED", "FAILED"])
def test_the_plants_reason_is_kept(said: str) -> None:
    life, steps = apply_acknowledgement(command(), word(command(), said, OUT_OF_RANGE), after(2))

    assert names(steps) == ["RECEIVED", said]
    assert life.reason == OUT_OF_RANGE
    assert [step.reason for step in steps] == [None, OUT_OF_RANGE]


def test_a_plant_may_be_faster_than_the_note_that_the_command_was_sent() -> None:
    life, steps = apply_acknowledgement(command("PENDING"), word(command(), "APPLIED"), after(2))

    assert names(steps) == ["SENT", "RECEIVED", "APPLIED"]
    assert life.sent_at == life.received_at == life.finished_at == after(2)


def test_clocks_of_two_machines_never_turn_a_history_around() -> None:
    life, steps = apply_acknowledgement(command(), word(command(), "APPLIED"), after(0.5))

    assert [step.at for step in steps] == [after(1), after(1)]
    assert life.finished_at == after(1)


def test_a_word_after_the_time_is_recorded_and_changes_nothing_but_the_reason() -> None:
    life, steps = apply_acknowledgement(command(), word(command(), "RECEIVED"), after(31))
    assert names(steps) == ["EXPIRED", "RECEIVED late"]
    assert (life.status, life.finished_at, life.received_at) == ("EXPIRED", after(30), None)
    assert life.reason == CommandReason("NOT_RECEIVED", "The plant did not acknowledge the command.")

    life, steps = apply_acknowledgement(life, word(life, "APPLIED"), after(32))
    assert names(steps) == ["APPLIED late"]
    assert (life.status, life.finished_at) == ("EXPIRED", after(30))
    assert life.reason == CommandReason("APPLIED_LATE", "The plant acknowledged with APPLIED after the command had expired.")


def test_the_last_moment_is_too_late() -> None:
    assert apply_acknowledgement(command(), word(command(), "APPLIED"), after(30))[0].status == "EXPIRED"
    assert apply_acknowledgement(command(), word(command(), "APPLIED"), after(29.999))[0].status == "APPLIED"


def test_a_plant_that_contradicts_itself_changes_nothing() -> None:
    applied, _ = apply_acknowledgement(command(), word(command(), "APPLIED"), after(2))

    life, steps = apply_acknowledgement(applied, word(applied, "FAILED"), after(3))

    assert life == applied
    assert names(steps) == ["FAILED late"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["sent", "sweep", *AckStatus]), st.floats(0, 20), st.floats(-2, 2)),
        max_size=12,
    ),
    st.booleans(),
)
def test_any_order_of_words_and_time_gives_a_legal_history(events: list[tuple[str, float, float]], repeat: bool) -> None:
    """As the store keeps it: each state once, the first to come."""
    life = command("PENDING")
    history: dict[str, Transition] = {"PENDING": Transition(life.id, life.plant_id, CommandStatus.PENDING, ISSUED)}
    clock = 0.0
    for event, pause, skew in events + events * repeat:
        clock += pause
        now = after(max(0, clock + skew))  # each process has its own clock
        steps: list[Transition] = []
        if event == "sent":
            if life.status is CommandStatus.PENDING and now < life.expires_at:
                life = CommandLife(life.id, life.plant_id, CommandStatus.SENT, ISSUED, life.expires_at, sent_at=now)
                steps = [Transition(life.id, life.plant_id, CommandStatus.SENT, now)]
        elif event == "sweep":
            if life.status in OPEN and life.expires_at <= now:
                life, step = expire(life)
                steps = [step]
        else:
            life, steps = apply_acknowledgement(life, word(life, event), now)
        for step in steps:
            history.setdefault(step.status, step)
        check(life, history)


def check(life: CommandLife, history: dict[str, Transition]) -> None:
    """The way is never left, ends once, and moves forward in time."""
    path = [name for name, step in history.items() if not step.late]
    ended = [name for name in path if name in ENDS]
    open_part = [name for name in path if name not in ENDS]
    assert open_part == WAY[: len(open_part)]
    assert len(ended) <= 1
    assert path == open_part + ended
    assert ended in ([], ["EXPIRED"]) or open_part == WAY
    assert life.status == path[-1]
    times = [history[name].at for name in path]
    assert times == sorted(times)
    assert all(at <= life.expires_at for at in times)
    assert not [name for name, step in history.items() if step.late] or ended
    recorded = {name: history[name].at if name in path else None for name in ("SENT", "RECEIVED")}
    assert (life.sent_at, life.received_at) == (recorded["SENT"], recorded["RECEIVED"])
    assert life.finished_at == (history[ended[0]].at if ended else None)


def test_waits_grow_up_to_a_quarter_of_a_minute() -> None:
    waits = [retry_wait(attempts).total_seconds() for attempts in (1, 2, 3, 4, 5, 6, 1_000_000)]
    assert waits == [1, 2, 4, 8, 15, 15, 15]


@pytest.mark.parametrize("writes_steps", [apply_acknowledgements, expire_due, record_published])
def test_who_writes_steps_has_to_say_what_follows_from_them(writes_steps: Callable[..., Any]) -> None:
    assert inspect.signature(writes_steps).parameters["follow"].default is inspect.Parameter.empty
