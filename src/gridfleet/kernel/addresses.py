"""Parsing of IP addresses and networks."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["IPNetwork", "is_within", "parse_address", "parse_network", "without_port"]

IPNetwork = IPv4Network | IPv6Network


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address; None for anything else.

    A dual-stack listener reports IPv4 clients as `::ffff:192.0.2.1`. Such addresses become IPv4.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def is_within(text: str, networks: Iterable[IPNetwork]) -> bool:
    """Return whether the address belongs to one of the networks; False for a text that is not an address."""
    address = parse_address(text)
    return address is not None and any(address in network for network in networks)


def without_port(text: str) -> str:
    """Return an address without the port that some proxies add: `192.0.2.1:567`, `[2001:db8::1]:567`, `[2001:db8::1]`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, _, port = text.partition(":")
    return host if port.isdecimal() else text


def parse_network(text: str) -> IPNetwork | None:
    """Return the network in CIDR notation, prefix length included; None for anything else, such as one with host bits set."""
    try:
        return ip_network(text) if "/" in text and "%" not in text else None
    except ValueError:
        return None
