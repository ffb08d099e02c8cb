"""Rules for URLs and addresses that customers configure.

A host name alone is not a proof. Every address that it resolves to is checked, and the connection uses these addresses without
a second lookup (`sending.py`). Spellings of addresses that resolvers and browsers interpret differently are refused.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import Thread
from typing import Final

import httpx

__all__ = [
    "MOST_LOOK_UPS",
    "AddressRefused",
    "NameUnknown",
    "Resolve",
    "is_local_name",
    "is_public",
    "parse_base_url",
    "port_of",
    "public_addresses",
    "resolve",
]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host name and port; raises NameUnknown."""

MOST_LOOK_UPS: Final = 64
"""Names that are looked up at the same time, each in a thread of its own."""
_look_ups: dict[tuple[str, int], Future[Sequence[str]]] = {}

_MOST_CHARACTERS: Final = 2048
_URL: Final = re.compile(r"(?i:https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?((?:/[A-Za-z0-9._~-]+)*)/?")
"""Host, port, path: no user name, percent signs, backslashes, zones, query or fragment."""
_NAME: Final = re.compile(
    r"(?=.{1,253}$)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
"""The last label begins with a letter, so this is a name, not an address in decimal, octal or hexadecimal form."""
_LOCAL_SUFFIXES: Final = (
    ".localhost",  # RFC 6761
    ".test",  # RFC 6761
    ".local",  # multicast DNS (RFC 6762)
    ".home.arpa",  # home networks (RFC 8375)
    ".internal",  # reserved by ICANN for private use in 2024
    *(".corp", ".home", ".intranet", ".lan", ".private"),  # in private use, and so not delegated (RFC 6762, appendix G)
    ".localdomain",  # the usual name of a host without a domain
)
_WEB_PORTS: Final = {80, 443}
_FIRST_FREE_PORT: Final = 1024

_PRIVATE_V4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host (RFC 791)
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by a carrier's customers (RFC 6598); metadata of some clouds
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's wire server, reachable from its machines only
        "169.254.0.0/16",  # link-local, metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; metadata of a cloud
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_PUBLIC_V6: Final = IPv6Network("2000::/3")
"""All allocated addresses. Loopback, ULA, link-local, multicast, IPv4-mapped and NAT64 are outside."""
_PRIVATE_V6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: contains an IPv4 address
        "3fff::/20",  # documentation (RFC 9637)
    )
)


class AddressRefused(ValueError):
    """Requests to the URL, or to an address of its host, are not allowed. The text gives the reason for users."""


class NameUnknown(OSError):
    """The name has no address, or its name server did not respond."""


def is_public(address: str) -> bool:
    """Return whether an address is public."""
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        return found.scope_id is None and found in _PUBLIC_V6 and not any(found in network for network in _PRIVATE_V6)
    return not any(found in network for network in _PRIVATE_V4)


def is_local_name(host: str) -> bool:
    """Return whether a host name can exist in local networks only. False for an IP address."""
    if _is_literal(host) or ":" in host:
        return False
    # A name without a dot is completed by the search list of the resolving machine.
    return "." not in host or f".{host.lower()}".endswith(_LOCAL_SUFFIXES)


def parse_base_url(text: str) -> httpx.URL:
    """Return a service's base URL: http or https, a host, optionally a port and a path, without a trailing slash.

    The host name is not resolved.

    Raises:
        AddressRefused: The URL contains anything else.
    """
    match = _URL.fullmatch(text)
    if match is None or len(text) > _MOST_CHARACTERS:
        raise AddressRefused("must be http:// or https://, a host, an optional port and a plain path, all in ASCII")
    host, port, path = match.groups()
    if not _is_literal(host) and not _NAME.fullmatch(host):
        raise AddressRefused("must name its host by a name, or by an IP address in its usual spelling")
    if port is not None and not (int(port) in _WEB_PORTS or _FIRST_FREE_PORT <= int(port) <= 65535):
        # Other services listen on ports below 1024, such as mail servers. A request could be interpreted as a command there.
        raise AddressRefused("must use port 80, 443, or one from 1024 on")
    if {".", ".."} & set(path.split("/")):
        raise AddressRefused("must have a path without dot segments")
    return httpx.URL(text.rstrip("/"))


def _is_literal(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return host.startswith("[") == (":" in host)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system's resolver. An IP address resolves to itself.

    A name whose server does not respond keeps the resolver waiting for ten seconds or more, also after the caller has given up.
    The event loop has two threads for look-ups, by which it also finds the database, the broker and the mail server. So a
    name that customers choose is looked up in a thread of its own, which all calls for this name share.

    Raises:
        NameUnknown: The host has no address.
        TimeoutError: Too many other names are being looked up, or the process can start no more threads.
    """
    key = host, port
    look_up = _look_ups.get(key)
    if look_up is None:
        if len(_look_ups) >= MOST_LOOK_UPS:
            raise TimeoutError(f"{MOST_LOOK_UPS} names are being looked up")
        look_up = _look_ups[key] = Future()
        look_up.set_running_or_notify_cancel()  # from now on, a caller that gives up does not cancel it
        look_up.add_done_callback(lambda _: _look_ups.pop(key))
        try:
            Thread(target=_look_up, args=(host, port, look_up), name="look-up", daemon=True).start()
        except RuntimeError:  # The system starts no more threads. The next call tries again.
            look_up.set_exception(TimeoutError("no thread for a look-up can be started"))
    return await asyncio.wrap_future(look_up)


def _look_up(host: str, port: int, result: Future[Sequence[str]]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        result.set_exception(NameUnknown(f"{host} has no address"))
    except BaseException as error:
        result.set_exception(error)
    else:
        result.set_result(list(dict.fromkeys(str(address[4][0]) for address in found)))


async def public_addresses(url: httpx.URL, resolve: Resolve, *, is_allowed: Callable[[str], bool]) -> Sequence[str]:
    """Resolve a URL's host once and return its addresses.

    Raises:
        AddressRefused: One of them is not allowed.
        NameUnknown: The name has no address.
    """
    addresses = await resolve(url.host, port_of(url))
    if not addresses:
        raise NameUnknown(f"{url.host} has no address")
    if not all(is_allowed(address) for address in addresses):
        # The text does not contain the address: a name's private address would reveal details of our network.
        raise AddressRefused("must resolve to public addresses only")
    return addresses


def port_of(url: httpx.URL) -> int:
    """Return the URL's port, or the default port of its scheme."""
    return url.port or (443 if url.scheme == "https" else 80)
