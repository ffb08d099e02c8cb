"""Sources and layouts for code that reads frames."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

__all__ = ["LayoutColumns", "SourceOwner"]


class SourceOwner(NamedTuple):
    """The organisation and plant of a source. `external_id` is None for the plant itself."""

    id: int
    organization_id: UUID
    plant_id: UUID
    external_id: str | None


@dataclass(frozen=True)
class LayoutColumns:
    """Keys and units of a layout's metrics, in the order of their positions."""

    layout_id: int
    keys: list[str]
    units: list[str]

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each key, from 0."""
        return {key: position for position, key in enumerate(self.keys)}
