"""The one cache that database notifications invalidate."""

from collections.abc import Collection

from gridfleet.kernel.db.notified_cache import NotifiedCache


class Table:
    """Texts by number, and the numbers that were read."""

    def __init__(self, **rows: str) -> None:
        self.rows = rows
        self.reads: list[list[str]] = []

    async def read(self, keys: Collection[str]) -> dict[str, str]:
        self.reads.append(sorted(keys))
        return {key: self.rows[key] for key in keys if key in self.rows}


async def test_only_missing_entries_are_read_and_absent_ones_again() -> None:
    table, cache = Table(a="1", b="2"), NotifiedCache[str, str]()
    assert await cache.look_up(["a"], table.read) == {"a": "1"}
    assert await cache.look_up(["a", "b", "c"], table.read) == {"a": "1", "b": "2"}
    assert await cache.look_up(["b", "c"], table.read) == {"b": "2"}
    assert table.reads == [["a"], ["b", "c"], ["c"]]


async def test_a_tag_invalidates_all_its_entries_and_no_other() -> None:
    table = Table(a="x1", b="x2", c="y1")
    cache = NotifiedCache[str, str](lambda _, value: tuple(value))
    await cache.look_up("abc", table.read)
    cache.invalidate("x")
    assert [cache.find(key) for key in "abc"] == [None, None, "y1"]
    await cache.look_up("ab", table.read)
    cache.invalidate("1")
    assert [cache.find(key) for key in "abc"] == [None, "x2", None]
    cache.invalidate_all()
    assert not len(cache)


async def test_an_entry_that_is_read_again_loses_its_old_tags() -> None:
    table = Table(a="x")
    cache = NotifiedCache[str, str](lambda _, value: (value,))
    await cache.look_up("a", table.read)
    table.rows["a"] = "y"
    assert await cache.load("a", table.read) == {"a": "y"}
    cache.invalidate("x")
    assert cache.find("a") == "y"


async def test_what_changes_while_it_is_read_is_used_once_and_not_cached() -> None:
    table, cache = Table(a="1"), NotifiedCache[str, str]()

    async def overtaken(keys: Collection[str]) -> dict[str, str]:
        found = await table.read(keys)
        cache.invalidate("a")
        return found

    assert await cache.look_up("a", overtaken) == {"a": "1"}
    assert cache.find("a") is None


async def test_the_oldest_entry_makes_room() -> None:
    table, cache = Table(a="1", b="2", c="3"), NotifiedCache[str, str](limit=2)
    for key in "abcc":
        await cache.look_up(key, table.read)
    assert [cache.find(key) for key in "abc"] == [None, "2", "3"]


async def test_every_look_up_reads_while_entries_are_not_valid() -> None:
    valid = False
    table, cache = Table(a="1"), NotifiedCache[str, str](is_valid=lambda: valid)
    for _ in range(2):
        assert await cache.look_up("a", table.read) == {"a": "1"}
    assert table.reads == [["a"], ["a"]]
    assert cache.find("a") is None


async def test_changes_of_other_entries_do_not_keep_what_is_read_from_being_cached() -> None:
    """Some plant of a large fleet changes in each second. A read that takes longer would be repeated for each batch."""
    table, cache = Table(a="1", b="2"), NotifiedCache[str, str]()

    async def beside_changes(keys: Collection[str]) -> dict[str, str]:
        found = await table.read(keys)
        for tag in ("b", "c"):
            cache.invalidate(tag)
        return found

    await cache.look_up("ab", beside_changes)
    assert [cache.find(key) for key in "ab"] == ["1", None]


async def test_what_is_read_while_everything_is_invalidated_is_not_cached() -> None:
    table, cache = Table(a="1"), NotifiedCache[str, str]()

    async def overtaken(keys: Collection[str]) -> dict[str, str]:
        found = await table.read(keys)
        cache.invalidate_all()
        await cache.look_up("b", table.read)
        return found

    assert await cache.look_up("a", overtaken) == {"a": "1"}
    assert cache.find("a") is None


async def test_large_entries_take_the_room_of_several_small_ones() -> None:
    table = Table(a="1", b="22", c="333", d="4444444")
    cache = NotifiedCache[str, str](limit=5, size=len)
    for wanted, kept in (("a", "a"), ("b", "ab"), ("c", "bc"), ("d", "d"), ("a", "a"), ("b", "ab")):
        await cache.look_up(wanted, table.read)
        assert "".join(key for key in "abcd" if cache.find(key)) == kept
    table.rows["b"] = "2222"
    await cache.load("b", table.read)
    cache.invalidate("b")
    await cache.look_up(["c"], table.read)
    assert [cache.find(key) for key in "abc"] == ["1", None, "333"], "what was removed no longer counts"
