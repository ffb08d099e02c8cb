"""One call as a handler sees it: where it comes from, and what to add to its answer."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import Any, Literal
from uuid import UUID

from gridfleet.api._http.answers import Header
from gridfleet.api._http.state import AppState
from gridfleet.kernel.addresses import is_within, parse_address

__all__ = ["Call"]


class Call:
    """A request's outer facts. Header names are lower-case."""

    def __init__(self, scope: Any, state: AppState, request_id: str) -> None:
        self._scope = scope
        self.state = state
        self.request_id = request_id
        """UUIDv7, or the caller's own well-formed one."""
        self.status: int | None = None
        """Set to answer with another status than the endpoint's usual one."""
        self.added_headers: list[Header] = []
        self.also_changed: set[UUID] = set()
        """Organisations beside the caller's own that the call changes: what the cache keeps of them ends too."""
        self.authorize_again: Callable[[], Awaitable[object]] = _nobody_to_ask
        """For answers that last: raises a `CodedError` once the caller may not call this any more."""
        self.bug: Exception | None = None
        """A declaration that the handler broke, raised after the answer when the state is strict."""

    @property
    def method(self) -> str:
        """`GET`, `POST`, …"""
        return str(self._scope["method"])

    @property
    def path(self) -> str:
        """The path as called, decoded."""
        return str(self._scope["path"])

    @cached_property
    def client_ip(self) -> str:
        """Address of the caller: where the connection comes from, or whom the trusted proxies before us name.

        Of `x-forwarded-for` the last address that is no trusted proxy counts; what stands before it, anybody could write.
        """
        client = self._scope.get("client")
        ip = client[0] if client else ""
        trusted = self.state.settings.trusted_proxies
        if not trusted:
            return ip
        # All of them: a proxy may add a header of its own behind the one that the caller wrote.
        lines = [value for name, value in self._scope["headers"] if name.lower() == b"x-forwarded-for"]
        for hop in reversed(b",".join(lines).decode("latin-1").split(",")):
            named = parse_address(hop.strip())
            if named is None or not is_within(ip, trusted):
                break
            ip = str(named)
        return ip

    @cached_property
    def client_network(self) -> str:
        """What rate limits count as one caller: the address, of IPv6 its /64, which one customer has whole."""
        address = parse_address(self.client_ip)
        return str(IPv6Network((address, 64), strict=False)) if isinstance(address, IPv6Address) else self.client_ip

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Request headers; of a repeated one the first counts."""
        found: dict[str, str] = {}
        for name, value in self._scope["headers"]:
            found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        return found

    @property
    def user_agent(self) -> str | None:
        """What the client calls itself, cut at 500 characters."""
        agent = self.headers.get("user-agent")
        return agent[:500] if agent else None

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """Request cookies; of a repeated one the first counts (RFC 6265 sends the more specific path first)."""
        found: dict[str, str] = {}
        for pair in self.headers.get("cookie", "").split(";"):
            name, equals, value = pair.strip().partition("=")
            if equals:
                found.setdefault(name, value.strip('"'))
        return found

    def set_header(self, name: str, value: str) -> None:
        """Adds a header to the answer, if the call succeeds."""
        self.added_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    def no_store(self) -> None:
        """Forbids every cache to keep the answer: for secrets."""
        self.set_header("cache-control", "no-store")

    def set_cookie(
        self,
        name: str,
        value: str,
        *,
        path: str,
        max_age: int,
        same_site: Literal["Strict", "Lax"] = "Strict",
    ) -> None:
        """Adds an HttpOnly cookie to the answer, Secure when the public URL is https. `max_age` in seconds."""
        secure = "; Secure" if self.state.settings.base_url.startswith("https://") else ""
        self.set_header("set-cookie", f"{name}={value}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite={same_site}{secure}")

    def clear_cookie(self, name: str, *, path: str) -> None:
        """Makes the browser forget a cookie that was set with `path`."""
        self.set_cookie(name, "", path=path, max_age=0)


async def _nobody_to_ask() -> None:
    """Who needs no permission keeps it."""
