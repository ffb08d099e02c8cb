"""Where customers may send us, and where not, however it is spelled."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.kernel.outbound.addresses import (
    MOST_LOOK_UPS,
    AddressRefused,
    NameUnknown,
    is_public,
    parse_base_url,
    resolve,
)
from gridfleet.kernel.outbound.sending import Outbound, Unreachable

PRIVATE_ADDRESSES = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1",
    "127.0.0.53", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1",
    "172.31.255.255", "192.0.0.8", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1",
    "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:7f00:1::1", "2001:10::1",
    "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:c0a8:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1",
    "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip

HOSTILE_URLS = [
    # Other schemes, and none.
    "", "esm.example.com", "//esm.example.com", "ftp://esm.example.com", "file:///etc/passwd", "gopher://esm.example.com",
    "javascript:alert(1)", "http:/esm.example.com", "http:esm.example.com", "http://", "https:///plants", "http+unix://%2Ftmp",
    # User names, queries, fragments.
    "http://user@esm.example.com", "http://user:password@esm.example.com", "http://esm.example.com@127.0.0.1",
    "http://127.0.0.1#@esm.example.com", "http://esm.example.com#x", "http://esm.example.com?x=1", "http://esm.example.com/?",
    # What browsers and resolvers read differently.
    "http://esm.example.com\\@127.0.0.1", "http:\\\\127.0.0.1", "http://127.0.0.1\\.example.com", "http://%31%32%37.0.0.1",
    "http://127.0.0.1%2f.example.com", "http://esm.example.com%00.local", "http://[::1%25eth0]", "http://[fe80::1%eth0]",
    " http://esm.example.com", "http://esm.example.com ", "http://esm\t.example.com", "http://esm.exam\nple.com",
    "http://１２７.0.0.1", "http://127。0。0。1", "http://ⓛocalhost", "http://esm.exämple.com",
    # Addresses in decimal, octal, hex, short.
    "http://2130706433", "http://0x7f000001", "http://017700000001", "http://0x7f.0.0.1", "http://0177.0.0.1",
    "http://127.1", "http://127.0.1", "http://0", "http://0.0", "http://1.2.3", "http://127.0.0.01", "http://127.0.0.0x1",
    "http://3232235521", "http://127.0.0.1.", "http://256.0.0.1", "http://1.2.3.4.5", "http://esm.0x7f", "http://esm.127",
    # Brackets and ports.
    "http://::1", "http://[::1", "http://::1]", "http://[]", "http://[127.0.0.1]", "http://[::1]x", "http://esm.example.com:",
    "http://esm.example.com:x", "http://esm.example.com:0", "http://esm.example.com:22", "http://esm.example.com:25",
    "http://esm.example.com:65536", "http://esm.example.com:99999", "http://esm.example.com:-1", "http://esm.example.com:8080:80",
    # Paths that lead elsewhere.
    "http://esm.example.com/..", "http://esm.example.com/a/../b", "http://esm.example.com/./a", "http://esm.example.com/%2e%2e",
    "http://esm.example.com/a//b", "http://esm.example.com/a b", "http://esm.example.com/\\..\\x",
    # Names that are none.
    "http://.", "http://..", "http://.example.com", "http://esm..example.com", "http://-esm.example.com", "http://esm-.example.com",
    "http://" + "a" * 64 + ".example.com", "http://" + "a." * 127 + "com", "http://esm.example.com/" + "a" * 2100,
]  # fmt: skip

WELCOME = {
    "https://esm.example.com": ("esm.example.com", None, ""),
    "http://esm.example.com/": ("esm.example.com", None, ""),
    "HTTPS://ESM.example.com:8443/api/v2/": ("esm.example.com", 8443, "/api/v2"),
    "https://esm.example.com:443/a_b~c.d-e": ("esm.example.com", None, "/a_b~c.d-e"),
    "http://xn--exmple-cua.com": ("exmple-cua", None, ""),
    "http://8.8.8.8:1024": ("8.8.8.8", 1024, ""),
    "http://[2606:4700::1111]/x": ("2606:4700::1111", None, "/x"),
    "http://esm": ("esm", None, ""),
}


def test_there_are_many_of_them() -> None:
    assert len(set(PRIVATE_ADDRESSES)) + len(set(HOSTILE_URLS)) >= 120


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_private_addresses_are_recognised(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "11.0.0.1", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "168.63.129.17",
                "192.0.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:200::1", "2400::1"]
)  # fmt: skip
def test_public_ones_too(address: str) -> None:
    assert is_public(address)


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_no_ipv4_address_hides_in_a_public_ipv6_one(address: IPv6Address) -> None:
    hidden = address.ipv4_mapped or address.sixtofour or (address.teredo or (None,))[0]
    assert not (hidden and is_public(str(address)))


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_hostile_urls_are_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        parse_base_url(url)


@pytest.mark.parametrize(("url", "expected"), WELCOME.items())
def test_honest_ones_are_taken_as_they_are_meant(url: str, expected: tuple[str, int | None, str]) -> None:
    parsed = parse_base_url(url)
    host, port, path = expected
    assert (parsed.port, str(parsed).partition("//")[2].partition("/")[1:][1]) == (port, path.removeprefix("/"))
    assert parsed.raw_host.decode().lower().endswith(host) or host in parsed.raw_host.decode()


class Listener:
    """A port on a loopback address that counts who comes."""

    def __init__(self, address: str, answer: bytes = b"") -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.bind((address, 0))
        self._socket.listen(64)
        self.port: int = self._socket.getsockname()[1]
        self.requests: list[bytes] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(65_536) if self._answer else b"")
                connection.sendall(self._answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def private() -> Iterator[Listener]:
    listener = Listener("127.0.0.1")
    yield listener
    listener.close()


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
async def test_a_name_that_leads_to_a_private_address_leads_nowhere(private: Listener, address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]

    outbound = Outbound(resolve=resolve)
    with pytest.raises(AddressRefused):
        async with outbound.open(parse_base_url(f"http://esm.example.com:{private.port}")) as wire:
            await wire.send("GET", "/plants")
    assert private.requests == []


async def test_every_spelling_of_a_listener_is_refused_before_a_connection(private: Listener) -> None:
    """With the system's own resolver, which would know all of them."""
    refused = 0
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f000001", "017700000001", "127.1", "0x7f.1", "0", "0.0.0.0",
                 "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[64:ff9b::7f00:1]", "127.0.0.1.", "user@127.0.0.1",
                 "esm.example.com@127.0.0.1", "%31%32%37.0.0.1", "①②⑦.0.0.1", "localhost."):  # fmt: skip
        try:
            async with Outbound().open(parse_base_url(f"http://{host}:{private.port}")) as wire:
                await wire.send("GET", "/")
        except (AddressRefused, NameUnknown):
            refused += 1
    assert refused == 20
    assert private.requests == []


HELLO = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


async def test_a_name_that_is_rebound_is_connected_to_as_it_was_resolved() -> None:
    """Resolved once: the listener that the name leads to afterwards, on the same port, never receives a request."""
    public = Listener("127.0.0.2", HELLO)
    private = socket.socket()
    private.bind(("127.0.0.1", public.port))
    private.listen(8)
    private.settimeout(0.05)
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    outbound = Outbound(resolve=rebinding, is_public=lambda address: address == "127.0.0.2")
    url = parse_base_url(f"http://esm.example.com:{public.port}")
    try:
        async with outbound.open(url) as wire:
            for _ in range(3):
                assert (await wire.send("GET", "/plants")).body == b"{}"
        assert asked == ["esm.example.com"]
        with pytest.raises(AddressRefused):
            async with outbound.open(url):
                pass
        with pytest.raises(TimeoutError):
            private.accept()
        assert [f"host: esm.example.com:{public.port}".encode() in request.lower() for request in public.requests] == [True] * 3
    finally:
        private.close()
        public.close()


async def test_the_next_address_is_tried_when_one_is_silent() -> None:
    listener = Listener("127.0.0.2", HELLO)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.2"]

    try:
        async with Outbound(resolve=resolve, allow_private=True).open(httpx.URL(f"http://esm:{listener.port}")) as wire:
            assert (await wire.send("GET", "/")).status == 200
            assert (await wire.send("GET", "/")).status == 200
    finally:
        listener.close()
    async with Outbound(resolve=resolve, allow_private=True).open(httpx.URL(f"http://esm:{listener.port}")) as wire:
        with pytest.raises(Unreachable):
            await wire.send("GET", "/")


async def test_closed_networks_may_be_allowed(private: Listener) -> None:
    await Outbound(allow_private=True).check(parse_base_url(f"http://127.0.0.1:{private.port}"))
    with pytest.raises(AddressRefused):
        await Outbound().check(parse_base_url(f"http://127.0.0.1:{private.port}"))


LOCAL_NAMES = [
    "localhost", "esm.localhost", "a.b.LOCALHOST", "localhost.localdomain", "esm", "esm.local", "esm.internal",
    "metadata.google.internal", "esm.home.arpa", "home.arpa", "esm.corp", "esm.home", "esm.intranet", "esm.lan", "esm.private",
    "esm.test",
]  # fmt: skip


@pytest.mark.parametrize("name", LOCAL_NAMES)
async def test_local_names_are_refused_whatever_they_resolve_to(name: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    url = parse_base_url(f"http://{name}:8080")
    with pytest.raises(AddressRefused, match="local"):
        await Outbound(resolve=resolve).check(url)
    await Outbound(resolve=resolve, allow_private=True).check(url)


@pytest.mark.parametrize("name", ["esm.example.com", "localhost.example.com", "notlocalhost.org", "test.de", "8.8.8.8"])
async def test_names_that_only_look_local_are_accepted(name: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    await Outbound(resolve=resolve).check(parse_base_url(f"http://{name}"))


async def test_the_systems_resolver() -> None:
    assert "127.0.0.1" in await resolve("localhost", 80)
    assert await resolve("8.8.8.8", 80) == ["8.8.8.8"]
    with pytest.raises(NameUnknown):
        await resolve("no-such-name.invalid", 80)


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names below `slow.example` have name servers that never answer. Yields those that were looked up."""
    looked_up: list[str] = []
    end = threading.Event()
    look_up = socket.getaddrinfo

    def getaddrinfo(host: str, *others: Any, **named: Any) -> Any:
        if host.endswith("slow.example"):
            looked_up.append(host)
            end.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return look_up(host, *others, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield looked_up
    end.set()
    for thread in threading.enumerate():
        if thread.name == "look-up":
            thread.join()


async def test_names_that_are_never_resolved_do_not_delay_the_look_ups_of_the_process(slow_names: list[str]) -> None:
    """The database, the broker and the mail server are looked up by the event loop."""
    waiting = [asyncio.create_task(resolve(f"esm{number}.slow.example", 443)) for number in range(200)]
    async with asyncio.timeout(10):
        while not slow_names:
            await asyncio.sleep(0.01)
        assert await asyncio.get_running_loop().getaddrinfo("localhost", 5432)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_name_that_is_being_resolved_is_not_looked_up_again(slow_names: list[str]) -> None:
    for _ in range(2):
        async with asyncio.TaskGroup() as calls:
            for _ in range(100):
                calls.create_task(given_up("esm.slow.example"))
    assert slow_names == ["esm.slow.example"]


async def given_up(name: str) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await resolve(name, 443)


async def test_look_ups_beyond_the_limit_time_out(slow_names: list[str]) -> None:
    waiting = [asyncio.create_task(resolve(f"esm{number}.slow.example", 443)) for number in range(MOST_LOOK_UPS)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await resolve("esm.example.com", 443)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_name_is_looked_up_again_when_threads_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(TimeoutError):
            await resolve("8.8.8.8", 80)
    async with asyncio.timeout(10):
        assert await resolve("8.8.8.8", 80) == ["8.8.8.8"]
