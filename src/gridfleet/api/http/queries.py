"""Queries of lists: by page, by cursor, and by time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    Field,
    field_validator,
)

from gridfleet.api.http.complaints import refuse
from gridfleet.api.http.inputs import Input
from gridfleet.kernel.pagination import CursorPaging, Paging, TimeKey, decode_cursor

__all__ = ["MAX_PAGE", "CursorQuery", "PageQuery", "SpanQuery"]

MAX_PAGE: Final = 1_000
"""The database reads all records before a page: 100,000 at most. Beyond this, a list needs a filter."""


class PageQuery(Input):
    """Query of a paged list. Subclasses add filters."""

    page: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 1
    limit: Annotated[int, Field(ge=1, le=100)] = 20

    @property
    def paging(self) -> Paging:
        """The requested page."""
        return Paging(self.page, self.limit)


class SpanQuery(Input):
    """Query of a list by time: `from` inclusive, `to` exclusive. Combined with `PageQuery` or `CursorQuery`."""

    since: datetime | None = Field(alias="from", default=None)
    until: datetime | None = Field(alias="to", default=None)

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the span is not positive."""
        if self.since is not None and self.until is not None and self.since >= self.until:
            yield "from: must be before to"


class CursorQuery(Input):
    """Query of a list with a cursor. Subclasses add filters, and `key` if the list is not ordered by time and id."""

    key: ClassVar[Any] = TimeKey
    cursor: Annotated[str, Field(max_length=500)] | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20

    @field_validator("cursor")
    @classmethod
    def _check_cursor(cls, text: str | None) -> str | None:
        try:
            if text is not None:
                decode_cursor(text, cls.key)
        except ValueError:
            refuse("must be the `nextCursor` of a page of this list")
        return text

    @property
    def paging(self) -> CursorPaging[Any]:
        """The requested page."""
        return CursorPaging(self.limit, None if self.cursor is None else decode_cursor(self.cursor, self.key))
