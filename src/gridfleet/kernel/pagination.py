"""Pages of a list, newest first: by number (`page` from 1, `limit` 1 to 100), or after the last record of the page before
(`cursor`), for lists whose later pages must not take longer than the first.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec

__all__ = [
    "MOST_COUNTED",
    "CursorMeta",
    "CursorPage",
    "CursorPaging",
    "Page",
    "PageMeta",
    "Paging",
    "TimeKey",
    "decode_cursor",
    "encode_cursor",
]

MOST_COUNTED: Final = 1_000
"""The largest `total` of a list with a cursor: counting more would take longer than the page."""

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


TimeKey = tuple[Annotated[datetime, msgspec.Meta(tz=True)], UUID]
"""The key of records that are ordered by time, then id."""

Key = TypeVar("Key", bound=tuple[Any, ...])
"""Where a record is in its list: the values that the list is ordered by."""


@dataclass(frozen=True, slots=True)
class CursorPaging(Generic[Key]):
    """The requested page of a list with a cursor: up to `limit` records after `after`, or the first ones if it is None."""

    limit: int = 20
    after: Key | None = None


class CursorMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Position of a page. `next_cursor` is null on the last page. `total` counts the matching records, up to 1,000."""

    limit: int
    total: int
    next_cursor: str | None


class CursorPage(msgspec.Struct, Generic[T], frozen=True):
    """One page of records of a list with a cursor."""

    data: list[T]
    meta: CursorMeta

    @classmethod
    def of(cls, rows: list[tuple[Key, T]], total: int, paging: CursorPaging[Key]) -> "CursorPage[T]":
        """Return the page.

        Args:
            rows: Records with their keys. One more than the limit means that there is a further page.
        """
        more = len(rows) > paging.limit
        rows = rows[: paging.limit]
        return cls(
            [record for _, record in rows], CursorMeta(paging.limit, total, encode_cursor(rows[-1][0]) if more else None)
        )


def encode_cursor(key: tuple[Any, ...]) -> str:
    """Return the cursor of a key."""
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode_cursor(text: str, kind: Any) -> Any:
    """Return the key of type `kind` in a cursor.

    Raises:
        ValueError: No list with such keys has issued the cursor.
    """
    try:
        return msgspec.json.decode(urlsafe_b64decode(text.encode() + b"=="), type=kind)
    except (binascii.Error, UnicodeError, msgspec.DecodeError) as error:
        raise ValueError("not a cursor") from error
