"""The open event streams of this process, and how many of them one user and one organisation may have."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.errors import TooManyRequests

__all__ = ["StreamSlots"]

MOST: Final = 4_096
"""Streams of a process."""
MOST_OF_CALLER: Final = 20
"""Streams of a user or API key in a process. A browser needs one."""
_RETRY_AFTER_SECONDS: Final = 30


class StreamSlots:
    """The slots for streams.

    An organisation may have half of the slots that the others leave, so the first has half of all, and each further one always
    gets some.
    """

    def __init__(self) -> None:
        self._of_organizations = Counter[UUID]()
        self._of_callers = Counter[UUID]()

    def __len__(self) -> int:
        return self._of_organizations.total()

    @contextmanager
    def hold(self, org: OrgScope) -> Iterator[None]:
        """Hold one slot until the end of the block.

        Raises:
            TooManyRequests: The caller or the organisation has all of its slots.
        """
        organization_id, caller_id = org.organization_id, org.actor.id
        own = self._of_organizations[organization_id]
        if self._of_callers[caller_id] >= MOST_OF_CALLER or own + len(self) >= MOST:
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        slots = (self._of_organizations, organization_id), (self._of_callers, caller_id)
        for counter, key in slots:
            counter[key] += 1
        try:
            yield
        finally:
            for counter, key in slots:
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]
