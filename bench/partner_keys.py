"""`python -m bench.partner_keys`: duration of creating a partner's key, and of revoking it for REST and at the broker.

Each key may use the broker, so its creation includes a vhost with its exchange, five queues and their bindings, and a test
login. Revocation is measured from the start of the request until the same process refuses a call with the key, and until the
broker has closed the connection of a program with the key.
"""

import argparse
import asyncio
import logging
import ssl
import time
from typing import Any
from urllib.parse import quote

import aiormq
import httpx
import psycopg

from bench.client import percentile
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack, running_stack

SCOPES = ["plants:read", "vcp:connect", "vcp:write:setpoint"]
SLUG = "bench"


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=40, help="how many keys to make and revoke")
    parser.add_argument("--existing", type=int, default=0, help="how many keys to make before anything is measured")
    chosen = parser.parse_args()
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # it logs every connection that the broker closes
    with running_stack() as stack:
        stack.start_api()
        stack.start("gateway")
        asyncio.run(_measure(stack, chosen.keys, chosen.existing))


async def _measure(stack: Stack, keys: int, existing: int) -> None:
    async with httpx.AsyncClient(base_url=f"{stack.api_url}/api/v1", timeout=60, trust_env=False) as http:
        login = await http.post("/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD})
        http.headers["authorization"] = f"Bearer {_json(login)['access_token']}"
        made = _json(await http.post("/organizations", json={"name": SLUG, "slug": SLUG}))
        http.headers["x-org-id"] = made["id"]
        with psycopg.connect(stack.database_url, autocommit=True) as db:
            db.execute("INSERT INTO partner_queues VALUES (%s, %s, true)", (made["id"], SLUG))
        for _ in range(existing):
            await _make(http)
        created = [await _make(http) for _ in range(keys)]
        _print("made, proved at the broker", [seconds for _, seconds in created])
        ended = [await _end(stack, http, key) for key, _ in created]
        _print("revoked: REST refuses", [rest for rest, _ in ended])
        _print("revoked: connection closed", [amqp for _, amqp in ended])


async def _make(http: httpx.AsyncClient) -> tuple[dict[str, str], float]:
    started = time.perf_counter()
    answer = _json(await http.post("/partner/api-keys", json={"name": "K", "partnerId": "p", "scopes": SCOPES}))
    seconds = time.perf_counter() - started
    return {"text": answer["key"], "id": answer["apiKey"]["id"], "vhost": answer["apiKey"]["vhost"]}, seconds


async def _end(stack: Stack, http: httpx.AsyncClient, key: dict[str, str]) -> tuple[float, float]:
    """Return the seconds until REST refuses the key, and until the broker has closed the connection."""
    context = ssl.create_default_context(cafile=str(stack.settings.home / "ca" / "ca.pem"))
    place = f"localhost:{stack.settings.amqps_port}/{key['vhost']}"
    connection = await aiormq.connect(f"amqps://{SLUG}:{quote(key['text'], safe='')}@{place}", context=context)
    await connection.channel()
    async with httpx.AsyncClient(base_url=f"{stack.api_url}/api/v1", timeout=60, trust_env=False) as program:
        program.headers["x-api-key"] = key["text"]
        if (await program.get("/plants")).status_code != 200:
            raise BenchFailed("the key does not open what it should")
        closed_at = asyncio.ensure_future(_closed(connection))
        started = time.perf_counter()
        _json(await http.delete(f"/partner/api-keys/{key['id']}"))
        while (await program.get("/plants")).status_code == 200:
            pass
        refused = time.perf_counter() - started
    async with asyncio.timeout(30):
        return refused, await closed_at - started


async def _closed(connection: aiormq.abc.AbstractConnection) -> float:
    await asyncio.wait([connection.closing])
    return time.perf_counter()


def _json(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise BenchFailed(f"{answer.request.method} {answer.request.url}: {answer.text}")
    decoded: dict[str, Any] = answer.json()
    return decoded


def _print(what: str, seconds: list[float]) -> None:
    middle, high = (percentile(seconds, share) * 1000 for share in (0.5, 0.95))
    print(f"{what:<28} median {middle:7.1f} ms   95 % {high:7.1f} ms   worst {max(seconds) * 1000:7.1f} ms", flush=True)


if __name__ == "__main__":
    main()
