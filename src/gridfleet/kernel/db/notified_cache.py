"""Cache of what was read from the database, invalidated by database notifications."""

from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

__all__ = ["NotifiedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Read = Callable[[Collection[K]], Awaitable[Mapping[K, V]]]


class NotifiedCache(Generic[K, V]):
    """Values by key, until a notification invalidates one of their tags.

    The owner listens for notifications and passes their payloads to `invalidate`. It calls `invalidate_all` when it begins to
    listen, because entries that were read before may be stale.
    """

    def __init__(
        self,
        tags: Callable[[K, V], Iterable[str]] = lambda key, _: (str(key),),
        *,
        limit: int | None = None,
        size: Callable[[V], int] = lambda _: 1,
        is_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create an empty cache.

        Args:
            tags: Returns the payloads that invalidate an entry, by default its key as text.
            limit: Maximum size of all entries; beyond it the oldest ones are removed.
            size: Returns the size of an entry, by default 1.
            is_valid: Whether entries may be used now. If not, every look-up reads.
        """
        self._tags = tags
        self._limit = limit
        self._size_of = size
        self._size = 0
        self._is_valid = is_valid
        self._entries: dict[K, V] = {}
        self._keys_by_tag: dict[str, set[K]] = {}
        self._reads: dict[object, set[str]] = {}
        """For each read under way, what was invalidated since it began."""

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: K) -> V | None:
        """Return the cached value, or None."""
        return self._entries.get(key) if self._is_valid() else None

    async def look_up(self, keys: Collection[K], read: Read[K, V]) -> dict[K, V]:
        """Return the values of the keys that exist. Missing ones are read with `read` and cached.

        The caller gets a dictionary of its own: an entry may be invalidated at any time.
        """
        found = {key: self._entries[key] for key in keys if key in self._entries} if self._is_valid() else {}
        missing = [key for key in keys if key not in found] if len(found) < len(keys) else []
        return {**found, **await self.load(missing, read)} if missing else found

    async def load(self, keys: Collection[K], read: Read[K, V]) -> Mapping[K, V]:
        """Read the values of the keys that exist and cache them, whether they were cached or not."""
        began = object()
        invalidated = self._reads[began] = set[str]()
        try:
            values = await read(keys)
        finally:
            is_current = self._reads.pop(began, None) is not None
        if is_current:
            for key, value in values.items():
                if invalidated.isdisjoint(self._tags(key, value)):  # otherwise it may be stale: used once, but not cached
                    self._keep(key, value)
        return values

    def invalidate(self, tag: str) -> None:
        """Remove the entries with this tag."""
        for invalidated in self._reads.values():
            invalidated.add(tag)
        for key in tuple(self._keys_by_tag.get(tag, ())):
            self._remove(key)

    def invalidate_all(self) -> None:
        """Remove all entries."""
        self._reads.clear()
        self._entries.clear()
        self._size = 0
        self._keys_by_tag.clear()

    def _keep(self, key: K, value: V) -> None:
        if key in self._entries:
            self._remove(key)
        size = self._size_of(value)
        while self._limit is not None and self._entries and self._size + size > self._limit:
            self._remove(next(iter(self._entries)))
        self._entries[key] = value
        self._size += size
        for tag in self._tags(key, value):
            self._keys_by_tag.setdefault(tag, set()).add(key)

    def _remove(self, key: K) -> None:
        value = self._entries.pop(key)
        self._size -= self._size_of(value)
        for tag in self._tags(key, value):
            keys = self._keys_by_tag[tag]
            keys.discard(key)
            if not keys:
                del self._keys_by_tag[tag]
