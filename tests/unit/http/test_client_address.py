"""Where a call comes from, seen through proxies that are trusted and headers that are not."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from gridfleet.api.http.call import Call
from gridfleet.kernel.settings import Settings


@dataclass
class State:
    """As much of the application's state as an address needs."""

    settings: Settings


def call(peer: str, *forwarded: str, proxies: str = "") -> Call:
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    scope = {"client": (peer, 1234), "headers": headers, "method": "GET", "path": "/"}
    return Call(scope, cast("Any", State(Settings(trusted_proxies=cast("Any", proxies)))))


@pytest.mark.parametrize(
    ("peer", "forwarded", "proxies", "address"),
    [
        ("192.0.2.1", [], "", "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.9"], "", "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.9"], "10.0.0.0/8", "192.0.2.1"),
        ("10.0.0.1", ["203.0.113.9"], "10.0.0.0/8", "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.7, 203.0.113.9"], "10.0.0.0/8", "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.7", "203.0.113.9"], "10.0.0.0/8", "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "10.0.0.0/8", "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.0/8", "10.0.0.3"),
        ("10.0.0.1", ["nonsense"], "10.0.0.0/8", "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, nonsense"], "10.0.0.0/8", "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.0/8", "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:567, 10.0.0.2:568"], "10.0.0.0/8", "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8::7]:567"], "10.0.0.0/8", "2001:db8::7"),
        ("10.0.0.1", ["[2001:db8::7]"], "10.0.0.0/8", "2001:db8::7"),
        ("10.0.0.1", ["203.0.113.9:"], "10.0.0.0/8", "10.0.0.1"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "10.0.0.0/8", "203.0.113.9"),
        ("::1", ["2001:db8::7"], "::1/128,10.0.0.0/8", "2001:db8::7"),
    ],
)
def test_headers_of_trusted_proxies_only_are_used(peer: str, forwarded: list[str], proxies: str, address: str) -> None:
    assert call(peer, *forwarded, proxies=proxies).client_ip == address


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("testclient", "testclient"),
    ],
)
def test_limits_count_a_customer_once(peer: str, network: str) -> None:
    assert call(peer).client_network == network


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "nonsense", "10.0.0.0/8;::1"])
def test_networks_that_are_none(wrong: str) -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        Settings(trusted_proxies=cast("Any", wrong))
