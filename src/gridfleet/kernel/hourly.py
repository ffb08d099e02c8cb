"""Amounts counted in the present hour, for limits that each process keeps for itself."""

import time
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, Generic, TypeVar

from gridfleet.kernel.db import Connection, after_commit

__all__ = ["HourlyAmounts"]

_HOUR_SECONDS: Final = 3_600

_Owner = TypeVar("_Owner", bound=Hashable)


class HourlyAmounts(Generic[_Owner]):
    """What this process has counted in the present hour, by owner.

    The hour is the same for all owners. It need not begin with an hour of the day.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._hour = 0
        self._amounts = Counter[_Owner]()

    def of(self, owner: _Owner) -> int:
        """Return the amount of an owner."""
        self._begin_hour()
        return self._amounts[owner]

    def add(self, owner: _Owner, amount: int) -> None:
        """Count an amount of an owner."""
        self._begin_hour()
        self._amounts[owner] += amount

    def add_after_commit(self, db: Connection, owner: _Owner, amount: int) -> None:
        """Count an amount of an owner if the transaction commits: ingest repeats a batch that fails."""
        after_commit(db, partial(self.add, owner, amount))

    def seconds_left(self) -> float:
        """Return the seconds until the next hour begins."""
        return _HOUR_SECONDS - self._clock() % _HOUR_SECONDS

    def _begin_hour(self) -> None:
        if (hour := int(self._clock() // _HOUR_SECONDS)) != self._hour:
            self._hour = hour
            self._amounts.clear()
