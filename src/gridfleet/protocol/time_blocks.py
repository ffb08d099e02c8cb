"""Time blocks: limits of a battery by time of day, as partners, the ESM and its sandbox exchange them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Final

import msgspec

__all__ = ["END", "MAX_BLOCKS", "START", "TimeBlock", "complaints_about_blocks"]

MAX_BLOCKS: Final = 96
"""The number of quarter-hours in a day."""

# In Python, $ also matches before a line feed at the end. JavaScript, which reads the published schema, has no \Z.
START: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9](?!\n)$"
END: Final = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)(?!\n)$"

Start = Annotated[str, msgspec.Meta(pattern=START)]
End = Annotated[str, msgspec.Meta(pattern=END)]


class TimeBlock(msgspec.Struct, frozen=True, rename="camel"):
    """Limits between two times of day in UTC: battery power in kW (positive = charging), state of charge in %."""

    start: Start = msgspec.field(name="from")
    end: End = msgspec.field(name="to")
    p_bat_min: float
    p_bat_max: float
    soc_min: Annotated[float, msgspec.Meta(ge=0, le=100)]
    soc_max: Annotated[float, msgspec.Meta(ge=0, le=100)]

    @property
    def minutes(self) -> tuple[int, int]:
        """First minute of the day inside the block, and the first minute after the block."""
        return _minute(self.start), _minute(self.end)

    def complaints(self) -> Iterator[str]:
        """Yield a text for each rule that the block violates on its own."""
        start, end = self.minutes
        if start >= end:
            yield "to: must be after from"
        if self.p_bat_min > self.p_bat_max:
            yield "pBatMax: must not be below pBatMin"
        if self.soc_min > self.soc_max:
            yield "socMax: must not be below socMin"


def complaints_about_blocks(blocks: Sequence[TimeBlock]) -> Iterator[str]:
    """Yield a text for each overlap between blocks of a day that are valid on their own. Adjacent blocks do not overlap."""
    furthest: tuple[int, int] | None = None
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].minutes)
    for earlier, later in pairwise(order):
        end = blocks[earlier].minutes[1]
        if furthest is None or end > furthest[0]:
            furthest = (end, earlier)
        if blocks[later].minutes[0] < furthest[0]:
            yield f"timeConfigs.{later}: overlaps timeConfigs.{furthest[1]}"


def _minute(time: str) -> int:
    return int(time[:2]) * 60 + int(time[3:])
