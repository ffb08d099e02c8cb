"""Small types that many endpoints share."""

from typing import Annotated, Any, Final

import msgspec

from gridfleet.kernel.pagination import Paging

__all__ = ["NOT_NULL", "Email", "Message", "Metadata", "PageQuery"]

NOT_NULL: Final = msgspec.Meta(extra={"null": False})
"""Marks an optional body field that may be omitted but not null: `Annotated[Description | None, NOT_NULL] = None`."""

Email = Annotated[
    str,
    msgspec.Meta(max_length=254, extra={"format": "email"}, extra_json_schema={"format": "email"}),
]
"""An e-mail address as entered. Domains convert it to lower case."""

Metadata = Annotated[
    dict[str, Any],
    msgspec.Meta(extra={"max_bytes": 32 * 1024}, extra_json_schema={"description": "Free-form, at most 32 KiB."}),
]
"""Free-form notes of users about a record. Limited in size, because a page of a list holds a hundred of them."""


class Message(msgspec.Struct, frozen=True):
    """The usual response of a deletion or an action."""

    message: str


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Query of a paged list. Subclasses add filters."""

    page: Annotated[int, msgspec.Meta(ge=1)] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20

    @property
    def paging(self) -> Paging:
        """The requested page."""
        return Paging(self.page, self.limit)
