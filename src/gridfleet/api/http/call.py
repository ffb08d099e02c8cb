"""One call as seen by a handler: its origin, and additions to its response."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import Any
from urllib.parse import parse_qsl, quote
from uuid import UUID

from gridfleet.api.http.responses import Header
from gridfleet.api.state import AppState
from gridfleet.kernel.addresses import is_within, parse_address, without_port
from gridfleet.kernel.ids import look_up_text, new_id, parse_uuid

__all__ = ["Call"]


class Call:
    """Properties of a request beside its input. Header names are lower-case."""

    def __init__(self, scope: Any, state: AppState) -> None:
        self._scope = scope
        self.state = state
        self.status: int | None = None
        """Status of the response; None means the endpoint's usual one."""
        self.added_headers: list[Header] = []
        self.also_changed: set[UUID] = set()
        """Organisations, beside the caller's own, that the call changes. Their cached responses are invalidated too."""
        self.confirm: Callable[[], Awaitable[object]] = _no_check
        """Check for long responses: raises a `CodedError` once the caller may no longer make this call.

        An access token that expired since the call began is still valid.
        """
        self.authorized: Hashable | None = None
        """The organisation, or the user without one, that the call is authorised for."""
        self.has_secret = False
        """Whether the response may hold a secret."""
        self.bug: Exception | None = None
        """A violation of the endpoint's declaration by the handler. Raised after the response if the state is strict."""

    @cached_property
    def request_id(self) -> str:
        """A UUID: the client's own if it sent a valid one, otherwise a new UUIDv7."""
        return str(parse_uuid(self.headers.get("x-request-id", "")) or new_id())

    @property
    def method(self) -> str:
        """The HTTP method: `GET`, `POST`, …"""
        return str(self._scope["method"])

    @property
    def path(self) -> str:
        """The requested path, decoded."""
        return str(self._scope["path"])

    @property
    def storable_path(self) -> str:
        """The path with characters that PostgreSQL cannot store replaced by U+FFFD."""
        return look_up_text(self.path)

    @cached_property
    def client_ip(self) -> str:
        """IP address of the client: the peer address, or the address that trusted proxies report.

        The last address of `x-forwarded-for` that is not a trusted proxy counts. Clients can forge the addresses before it.
        """
        client = self._scope.get("client")
        ip = client[0] if client else ""
        trusted = self.state.settings.trusted_proxies
        if not trusted:
            return ip
        # All header lines are read: a proxy may add its own header after the one that the client sent.
        lines = [value for name, value in self._scope["headers"] if name.lower() == b"x-forwarded-for"]
        for hop in reversed(b",".join(lines).decode("latin-1").split(",")):
            named = parse_address(without_port(hop.strip()))
            if named is None or not is_within(ip, trusted):
                break
            ip = str(named)
        return ip

    @cached_property
    def client_network(self) -> str:
        """The unit of rate limits: the address, or for IPv6 its /64 network, because one customer usually owns a whole /64."""
        address = parse_address(self.client_ip)
        return str(IPv6Network((address, 64), strict=False)) if isinstance(address, IPv6Address) else self.client_ip

    @property
    def sender(self) -> Hashable:
        """In whose turns the call waits: an organisation, a user without one, or an address."""
        return self.authorized or self.client_network

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Request headers. For a repeated header the first value counts."""
        found: dict[str, str] = {}
        for name, value in self._scope["headers"]:
            found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        return found

    def query_value(self, name: str) -> str | None:
        """Return the first value of a query parameter; None if it is missing or the query cannot be read."""
        try:
            pairs = parse_qsl(self._scope["query_string"].decode("ascii"), errors="strict", max_num_fields=100)
        except ValueError:
            return None
        return next((value for key, value in pairs if key == name), None)

    @property
    def user_agent(self) -> str | None:
        """The `User-Agent` header, cut to 500 characters, or None."""
        agent = self.headers.get("user-agent")
        return agent[:500] if agent else None

    @cached_property
    def cookies(self) -> Mapping[str, str]:
        """Request cookies. For a repeated cookie the first value counts (RFC 6265: the more specific path comes first)."""
        found: dict[str, str] = {}
        for pair in self.headers.get("cookie", "").split(";"):
            name, equals, value = pair.strip().partition("=")
            if equals:
                found.setdefault(name, value.strip('"'))
        return found

    def set_header(self, name: str, value: str) -> None:
        """Add a header in Latin-1 to the response if the call succeeds. It replaces the default header of the same name."""
        self.added_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    def download_as(self, name: str) -> None:
        """Make browsers save the response under a name, which may hold any characters (RFC 6266)."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in name)
        self.set_header("content-disposition", f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}")

    def no_store(self) -> None:
        """Disable caching and compression of the response. For responses with secrets."""
        self.has_secret = True
        self.set_header("cache-control", "no-store")

    def set_cookie(self, name: str, value: str, *, path: str, max_age: int) -> None:
        """Add an HttpOnly cookie to the response, Secure if the public URL is https. `max_age` is in seconds."""
        secure = "; Secure" if self.state.settings.base_url.startswith("https://") else ""
        self.set_header("set-cookie", f"{name}={value}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}")

    def clear_cookie(self, name: str, *, path: str) -> None:
        """Delete a cookie that was set with `path`."""
        self.set_cookie(name, "", path=path, max_age=0)


async def _no_check() -> None:
    """Do nothing: a call without authorization needs no further check."""
