"""Shards: the parts in which organisations are distributed among gateway processes."""

from typing import Final
from uuid import UUID

__all__ = ["SHARDS", "shard_of"]

SHARDS: Final = 16
"""As many as a hexadecimal digit has values: queries compare the last digit of an organisation's id."""


def shard_of(organization_id: UUID) -> int:
    """Return the shard of an organisation."""
    return organization_id.int % SHARDS
