"""Redis killed, frozen and back: no request is refused for it, and none waits long."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from gridfleet.kernel.redis_link import RedisLink, RedisUnavailable
from support.builders.accounts import add_organization
from support.clients.plants_over_http import new_plant
from support.servers.api_service import ApiService, api_service
from support.servers.redis_server import RedisServer

LONG_SECONDS = 10.0
"""Nothing here takes a second; a frozen server without bounds would keep every request waiting for minutes."""


@pytest.fixture
async def service(database_url: str, home: Path, own_redis: RedisServer) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home, redis_url=own_redis.url, login_per_address_per_minute=5) as opened:
        yield opened


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.05)


async def cache_check(service: ApiService) -> str:
    return str((await service.client.get("/api/v1/health/ready")).json()["checks"]["cache"])


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_service_goes_on(service: ApiService, own_redis: RedisServer, end: signal.Signals) -> None:
    client = service.client
    organization = await add_organization(service.state.database)
    headers = await service.super_admin() | {"x-org-id": str(organization.id)}
    plant = await new_plant(client, headers)
    energy = f"/api/v1/plants/{plant['id']}/energy/today"
    assert (await client.get(energy, headers=headers)).status_code == 200
    assert await cache_check(service) == "ok"

    async def requests(name: str) -> float:
        """Return the seconds that 41 requests take."""
        started = time.perf_counter()
        answers = await asyncio.gather(*(client.get(energy, headers=headers) for _ in range(20)))
        answers += [await client.get(energy, headers=headers) for _ in range(20)]
        answers.append(await client.patch(f"/api/v1/plants/{plant['id']}", json={"name": name}, headers=headers))
        assert {answer.status_code for answer in answers} == {200}
        return time.perf_counter() - started

    with_redis = await requests("First")
    own_redis.signal(end)
    seconds = await requests("Second")
    print(f"{end.name}: 41 requests took {seconds:.2f} s, with Redis {with_redis:.2f} s")
    # On a busy machine, they take as long without the end of Redis.
    assert seconds < LONG_SECONDS + 10 * with_redis
    assert await cache_check(service) == "unavailable"

    wrong = {"email": "nobody@example.com", "password": "Mistaken-horse-7"}
    statuses = [(await client.post("/api/v1/auth/login", json=wrong)).status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2, "limits are counted by the process meanwhile"
    admin = {name: value for name, value in headers.items() if name != "x-org-id"}
    assert (await client.get("/api/v1/admin/cache/stats", headers=admin)).status_code == 500
    assert (await client.delete("/api/v1/admin/cache/flush", headers=admin)).status_code == 500

    if end is signal.SIGSTOP:
        own_redis.signal(signal.SIGCONT)
    else:
        own_redis.process.wait()  # type: ignore[union-attr]
        own_redis.start()

    async def is_back() -> bool:
        return await cache_check(service) == "ok"

    await until(is_back)
    before = (await client.get("/api/v1/admin/cache/stats", headers=admin)).json()
    for _ in range(2):
        assert (await client.get(energy, headers=headers)).status_code == 200
    after = (await client.get("/api/v1/admin/cache/stats", headers=admin)).json()
    assert after["hits"] > before["hits"]


async def test_a_server_that_was_restarted_between_two_questions_is_not_missed(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url)
    try:
        await link.ping()
        own_redis.kill()
        own_redis.start()
        await link.ping()
        assert not link.is_unavailable
    finally:
        await link.close()


async def test_many_questions_at_once_wait_for_their_turn(own_redis: RedisServer) -> None:
    """The client opens a hundred connections at most, and refuses further questions as if the server were away."""
    link = RedisLink(own_redis.url, answer_seconds=20)
    try:
        await asyncio.gather(*(link.run(lambda: link.client.incr("asked")) for _ in range(500)))
        assert int(await link.client.get("asked") or 0) == 500
        assert not link.is_unavailable
    finally:
        await link.close()


async def test_a_question_does_not_wait_long_for_its_turn(own_redis: RedisServer) -> None:
    """A server that responds slowly, but in time, would otherwise delay all requests more and more."""
    link = RedisLink(own_redis.url, answer_seconds=4)

    async def ask() -> bool:
        try:
            await link.run(lambda: asyncio.sleep(2))
        except RedisUnavailable:
            return False
        return True

    try:
        answered = await asyncio.gather(*(ask() for _ in range(100)))
        assert not link.is_unavailable
    finally:
        await link.close()
    assert 16 <= answered.count(True) <= 48


async def test_a_question_that_was_given_up_does_not_answer_another(own_redis: RedisServer) -> None:
    """Otherwise a caller would get what another organisation asked for."""
    link = RedisLink(own_redis.url)
    try:
        for number in range(5):
            await link.client.set(f"k{number}", str(number))
        for number in range(5):
            own_redis.signal(signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await link.client.get(f"k{number}")
            own_redis.signal(signal.SIGCONT)
            assert [await link.client.get(f"k{other}") for other in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    finally:
        await link.close()


async def test_only_the_first_to_ask_waits(own_redis: RedisServer) -> None:
    link = RedisLink(own_redis.url)
    try:
        own_redis.signal(signal.SIGSTOP)
        with pytest.raises(RedisUnavailable):
            await link.ping()

        async def never() -> None:
            raise AssertionError("it is not asked while it is away")

        with structlog.testing.capture_logs() as lines:
            for _ in range(100):
                with pytest.raises(RedisUnavailable):
                    await link.run(never)
        assert lines == [], "said once, when it went"
    finally:
        await link.close()


async def test_a_server_that_was_never_there_stops_no_request(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, redis_url="redis://127.0.0.1:1") as service:
        organization = await add_organization(service.state.database)
        headers = await service.super_admin() | {"x-org-id": str(organization.id)}
        assert (await service.client.get("/api/v1/plants/certificate-stats", headers=headers)).status_code == 200
        assert await cache_check(service) == "unavailable"
