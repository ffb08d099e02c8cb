"""What a window concludes about the age of waiting messages."""

from gridfleet.mqtt.window import MARGIN_MILLISECONDS, ShardWindow

SIZE = 3


def window(empty_at: int = 1_000_000) -> ShardWindow:
    return ShardWindow(SIZE, empty_at)


def test_what_waited_before_we_came_may_be_as_old_as_the_last_known_empty_queue() -> None:
    shard = window()

    assert shard.deliver(1) == 1_000_000 - MARGIN_MILLISECONDS
    shard.look(9_000_000, 0)
    assert shard.deliver(2) == 1_000_000 - MARGIN_MILLISECONDS


def test_a_window_with_room_all_the_time_means_that_nothing_waits() -> None:
    shard = window()
    shard.look(9_000_000, 0)
    shard.deliver(1)
    shard.acknowledge(1)
    shard.look(9_001_000, 1)

    assert shard.deliver(2) == 9_000_000


def test_a_window_that_was_full_for_a_moment_proves_nothing() -> None:
    shard = window()
    shard.look(9_000_000, 0)
    for tag in (1, 2, 3):
        shard.deliver(tag)
    shard.acknowledge(3)
    shard.look(9_001_000, 3)

    assert shard.deliver(4) == 1_000_000 - MARGIN_MILLISECONDS


def test_the_next_consumer_is_told_only_what_holds_for_messages_in_flight_too() -> None:
    shard = window()
    shard.look(2_000_000, 0)
    shard.deliver(1)
    for second in range(1, 60):  # the database is away: the message stays unacknowledged
        shard.look(2_000_000 + second * 1000, 0)

    assert shard.settled_at <= 2_000_000

    shard.acknowledge(1)
    for second in range(60, 63):
        shard.look(2_000_000 + second * 1000, 1)
    assert shard.settled_at >= 2_059_000


def test_under_steady_load_the_books_move_on() -> None:
    shard = window(0)
    for second in range(1, 100):
        shard.deliver(second)
        shard.look(second * 1000, second - 1)
        shard.acknowledge(1)

    assert shard.settled_at >= 95_000
