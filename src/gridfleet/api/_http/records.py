"""Small shapes that many endpoints share."""

from typing import Annotated, Any, Final

import msgspec

from gridfleet.kernel.pagination import Paging

__all__ = ["NOT_NULL", "Email", "Message", "Metadata", "PageQuery"]

NOT_NULL: Final = msgspec.Meta(extra={"null": False})
"""For an optional body field that may be left out but not sent as null: `Annotated[Description | None, NOT_NULL] = None`."""

Email = Annotated[
    str,
    msgspec.Meta(max_length=254, extra={"format": "email"}, extra_json_schema={"format": "email"}),
]
"""An e-mail address as typed; domains lower-case it."""

Metadata = Annotated[
    dict[str, Any],
    msgspec.Meta(extra={"max_bytes": 32 * 1024}, extra_json_schema={"description": "Free-form, at most 32 KiB."}),
]
"""What people note about a record, in a form of their own. Bounded, because a page of a list holds a hundred of them."""


class Message(msgspec.Struct, frozen=True):
    """The usual answer of a delete or an action."""

    message: str


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Query of a paged list; subclass it to add filters."""

    page: Annotated[int, msgspec.Meta(ge=1)] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20

    @property
    def paging(self) -> Paging:
        """The page asked for."""
        return Paging(self.page, self.limit)
