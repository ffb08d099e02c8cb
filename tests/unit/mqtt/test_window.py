"""What a window concludes about the age of waiting messages."""

from gridfleet.mqtt.window import MARGIN_MILLISECONDS, ShardWindow

FIRST = 1_000_000 - MARGIN_MILLISECONDS


def window(empty_at: int = 1_000_000) -> ShardWindow:
    return ShardWindow(empty_at)


def test_what_waited_before_we_came_may_be_as_old_as_the_last_known_empty_queue() -> None:
    shard = window()

    assert shard.deliver(1) == FIRST
    shard.note_check(9_000_000, 0, nothing_waits=False)
    assert shard.deliver(2) == FIRST


def test_what_comes_after_two_looks_is_younger_than_the_first_that_saw_nothing_wait() -> None:
    shard = window()
    shard.note_check(9_000_000, 0, nothing_waits=True)
    assert shard.deliver(1) == FIRST  # it may have been on its way to us
    shard.note_check(9_001_000, 1, nothing_waits=False)
    assert shard.deliver(2) == 9_000_000
    shard.note_check(9_002_000, 1, nothing_waits=True)
    assert shard.deliver(3) == 9_000_000
    shard.note_check(9_003_000, 1, nothing_waits=True)
    assert shard.deliver(4) == 9_002_000


def test_the_next_consumer_receives_only_what_holds_for_messages_in_flight_too() -> None:
    shard = window()
    shard.note_check(2_000_000, 0, nothing_waits=True)
    shard.deliver(1)
    for second in range(1, 60):  # the database is away: the message stays unacknowledged
        shard.note_check(2_000_000 + second * 1000, 0, nothing_waits=True)

    assert shard.arrived_after <= 2_000_000

    shard.acknowledge(1)
    for second in range(60, 63):
        shard.note_check(2_000_000 + second * 1000, 1, nothing_waits=True)
    assert shard.arrived_after >= 2_059_000


def test_under_steady_load_the_books_move_on() -> None:
    shard = window(0)
    for second in range(1, 100):
        shard.deliver(second)
        shard.note_check(second * 1000, second - 1, nothing_waits=True)
        shard.acknowledge(1)

    assert shard.arrived_after >= 95_000


def test_times_of_a_clock_that_was_ahead_are_replaced_by_the_present() -> None:
    """Messages of the present would be refused as too old, also by the next consumer."""
    shard, ahead = window(), 9_000_000
    for second in range(3):
        shard.note_check(ahead + second * 1000, 0, nothing_waits=True)
    shard.deliver(1)
    shard.note_check(ahead + 3_000, 0, nothing_waits=True)
    assert shard.arrived_after > ahead

    now = 5_000_000
    shard.note_check(now, 0, nothing_waits=False)
    assert (shard.deliver(2), shard.arrived_after) == (now, now)
    shard.acknowledge(1)
    for second in range(1, 4):  # a queue that is never empty shows no later time
        shard.note_check(now + second * 1000, 1, nothing_waits=False)
        assert (shard.deliver(2 + second), shard.arrived_after) == (now, now)
