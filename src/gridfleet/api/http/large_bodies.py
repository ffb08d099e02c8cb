"""The memory that large bodies may occupy together while they arrive or are sent."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gridfleet.kernel.errors import TooManyRequests

__all__ = ["LARGE_BODY", "HeldBody", "refusal_of_change", "sending"]

LARGE_BODY: Final = 16 * 1024
"""Bytes above which a body is counted, and decoded in a thread. A mebibyte of JSON takes 0.1 s."""
_MOST_BYTES: Final = 256 * 1024 * 1024
_MOST_BYTES_OF_SENDER: Final = 32 * 1024 * 1024
"""Bytes of bodies that arrive or wait to be decoded: in a process, and of one address."""
MOST_SENT_BYTES: Final = 256 * 1024 * 1024
"""The same of large responses that are being sent. A response is always sent while no other is.

Responses to changes are always sent. Those of one address leave half of the bytes to the others, and beyond all of the bytes it
must read them before its next change.
"""
_RETRY_AFTER_SECONDS: Final = 5


class _Memory:
    """Bytes of bodies: of all, and by the address that they come from or go to.

    An address may have half of the memory that the others leave, so a few addresses cannot take all of it. What one has beyond
    half of the memory does not count for the others.
    """

    def __init__(self) -> None:
        self.total = 0
        self.of_addresses = Counter[str]()

    def has_room(self, address: str, size: int, most: int) -> bool:
        return self.of_addresses[address] + self.total + size <= most

    def add(self, address: str, size: int, most: int) -> None:
        before, share = self.of_addresses[address], most // 2
        self.total += min(before + size, share) - min(before, share)
        self.of_addresses[address] += size
        if not self.of_addresses[address]:
            del self.of_addresses[address]


_memory: Final = _Memory()
_sent: Final = _Memory()


def refusal_of_change(address: str) -> TooManyRequests | None:
    """Return why no change from this address may begin, or None: its response would be sent even without memory for it."""
    return TooManyRequests(_RETRY_AFTER_SECONDS) if _sent.of_addresses[address] > MOST_SENT_BYTES else None


@contextmanager
def sending(receiver: str, size: int, *, refusable: bool) -> Iterator[None]:
    """Count the bytes that a response occupies while it is sent to an address.

    Raises:
        TooManyRequests: It is refusable, and the responses to this address would take too many bytes.
    """
    if refusable and _sent.total and not _sent.has_room(receiver, size, MOST_SENT_BYTES):
        raise TooManyRequests(_RETRY_AFTER_SECONDS)
    _sent.add(receiver, size, MOST_SENT_BYTES)
    try:
        yield
    finally:
        _sent.add(receiver, -size, MOST_SENT_BYTES)


class HeldBody:
    """The bytes of one body in memory. They arrive before the caller's credentials are checked, so anyone may send them."""

    def __init__(self, sender: Callable[[], str]) -> None:
        """Begin with no bytes. `sender` returns the address that they come from."""
        self._address = sender
        self._sender: str | None = None
        self._size = 0
        self._counted = 0

    def add(self, size: int) -> None:
        """Count bytes that have arrived.

        Raises:
            TooManyRequests: The bodies of this sender, or all bodies, take too many bytes. Those of this body no longer count.
        """
        self._size += size
        if self._size <= LARGE_BODY:
            return
        if self._sender is None:
            self._sender = self._address()
        more = self._size - self._counted
        own = _memory.of_addresses[self._sender] + more
        if own > _MOST_BYTES_OF_SENDER or not _memory.has_room(self._sender, more, _MOST_BYTES):
            self.release()
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        self._counted = self._size
        _memory.add(self._sender, more, _MOST_BYTES)

    def release(self) -> None:
        """Stop counting the bytes of this body."""
        if self._sender is not None:
            _memory.add(self._sender, -self._counted, _MOST_BYTES)
            self._sender, self._size, self._counted = None, 0, 0
