"""Time blocks in bodies."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from gridfleet.api.http.inputs import As, Input, Pattern
from gridfleet.protocol import time_blocks
from gridfleet.protocol.time_blocks import END, MAX_BLOCKS, START

__all__ = ["TimeBlocks"]


class TimeBlockInput(Input):
    __doc__ = time_blocks.TimeBlock.__doc__

    start: Annotated[str, Pattern(START, "must be a time of day, 00:00 to 23:59")] = Field(alias="from")
    end: Annotated[str, Pattern(END, "must be a time of day, 00:01 to 24:00")] = Field(alias="to")
    p_bat_min: float
    p_bat_max: float
    soc_min: Annotated[float, Field(ge=0, le=100)]
    soc_max: Annotated[float, Field(ge=0, le=100)]

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each rule that the block violates."""
        return time_blocks.TimeBlock(**dict(self)).complaints()


TimeBlocks = Annotated[tuple[Annotated[time_blocks.TimeBlock, As(TimeBlockInput)], ...], Field(max_length=MAX_BLOCKS)]
"""The blocks of a day, in any order."""
