"""Find the endpoint of a path."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from gridfleet.api.http.endpoint import Endpoint

__all__ = ["Node"]

_ANY: Final = "/"
"""The segment of a path parameter. No segment of a request contains it."""

_REST: Final = "//"
"""The segment of a path parameter that takes the rest of the path."""


class Bound(Protocol):
    """What the router needs of an endpoint."""

    path: str
    has_effect: bool


_B = TypeVar("_B", bound=Bound)


@dataclass(slots=True)
class Node(Generic[_B]):
    """One segment of the paths."""

    children: "dict[str, Node[_B]]" = field(default_factory=dict)
    endpoints: dict[str, _B] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The path of its endpoints."""
        return next(iter(self.endpoints.values())).path

    @property
    def methods(self) -> list[str]:
        """The methods that a request of this path may have."""
        return sorted({"OPTIONS", *self.endpoints, *(["HEAD"] if self.bound("HEAD") else [])})

    def bound(self, method: str) -> _B | None:
        """Return the endpoint of a method; for HEAD the endpoint of GET, unless that has an effect."""
        found = self.endpoints.get("GET" if method == "HEAD" else method)
        return None if found is not None and found.has_effect and method == "HEAD" else found

    def find(self, segments: Sequence[str]) -> "tuple[Node[_B], list[str]]":
        """Return the node of a path, and the values of its parameters. A node without endpoints means that no route matches."""
        node, values = self, list[str]()
        rest: tuple[Node[_B], list[str]] = _NOWHERE, []
        for position, segment in enumerate(segments):
            if _REST in node.children:
                rest = node.children[_REST], [*values, "/".join(segments[position:])]
            child = node.children.get(segment)
            if child is None:
                child = node.children.get(_ANY)
                values.append(segment)
            if child is None:
                return rest
            node = child
        return (node, values) if node.endpoints else rest

    def add(self, endpoint: Endpoint, bound: _B) -> None:
        """Add a path below this node."""
        node = self
        for segment in filter(None, endpoint.path.split("/")):
            key = segment if not segment.startswith("{") else _REST if segment.endswith("*}") else _ANY
            node = node.children.setdefault(key, Node())
        node.endpoints[endpoint.method] = bound


_NOWHERE: Final = Node[Any]()
