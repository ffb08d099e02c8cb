"""Pages of a list: `page` from 1, `limit` 1 to 100, newest first."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

__all__ = ["Page", "PageMeta", "Paging"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paging:
    """The requested page."""

    page: int = 1
    limit: int = 20

    @property
    def offset(self) -> int:
        """Number of rows before the page."""
        return (self.page - 1) * self.limit


class PageMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Position of a page in its list. `total_pages` of an empty list is 0."""

    page: int
    limit: int
    total: int
    total_pages: int


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of records."""

    data: list[T]
    meta: PageMeta

    @classmethod
    def of(cls, data: list[T], total: int, paging: Paging) -> "Page[T]":
        """Return the page with its computed metadata."""
        return cls(data, PageMeta(paging.page, paging.limit, total, -(-total // paging.limit)))
