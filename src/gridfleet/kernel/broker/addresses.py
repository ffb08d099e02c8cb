"""The addresses at which plants and partners reach the broker."""

from collections.abc import Iterable

import msgspec

__all__ = ["BrokerAddress", "broker_addresses"]


class BrokerAddress(msgspec.Struct, frozen=True):
    """An address of the broker."""

    host: str
    port: int


def broker_addresses(hosts: Iterable[str], port: int) -> tuple[BrokerAddress, ...]:
    """Return an address for each host, in order."""
    return tuple(BrokerAddress(host, port) for host in hosts)
