"""How soon a value that a plant publishes over MQTT is on the screen.

A plant of the large fleet publishes at random intervals while the console shows its newest values. The values ascend: one is on
the screen in the first frame that shows it or a newer one. Browser and publisher share the clock of the machine.
"""

import asyncio
import random
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final
from uuid import UUID

import psycopg
import uvloop
from playwright.sync_api import Page

from bench.fleet import BenchPlant
from bench.load import Sent
from bench.publisher import Publishers
from bench.stack import Stack
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import sign_message
from gridfleet.protocol.topics import Channel, topic

__all__ = ["time_values"]

_DEVICE: Final = "DEV4"
"""Of the sub-devices of `bench.lists`, the one with a template, that of an inverter."""
_SIGNAL: Final = "active_power"
_CELL: Final = f'th[title="{_DEVICE}.{_SIGNAL}"] + td'
_SHORTEST_SECONDS: Final = 0.25
_LONGEST_SECONDS: Final = 0.75
_TIMEOUT: Final = 30_000

_NOTE_VALUES: Final = f"""
() => {{
  window.shown = []
  new MutationObserver(() => {{
    const value = parseFloat(document.querySelector('{_CELL}')?.textContent)
    if (value > (window.shown.at(-1)?.[0] ?? 0)) window.shown.push([value, undefined])
    requestAnimationFrame(() => setTimeout(() => {{
      for (const one of window.shown) one[1] ??= Date.now()
    }}))
  }}).observe(document.body, {{childList: true, subtree: true, characterData: true}})
}}
"""
"""Note each new value of the cell, and when it is on the screen."""
_LAST_IS: Final = "value => window.shown.at(-1)?.[1] !== undefined && window.shown.at(-1)[0] >= value"


def time_values(stack: Stack, page: Page, slug: str, plant_id: str, values: int) -> list[float]:
    """Return the milliseconds of each value from its publish to the screen. The page must be logged in."""
    plant = _provision(stack, plant_id)
    stack.start("ingest")
    with ThreadPoolExecutor(1) as pool:
        # The page is open before the values that are measured, and shows the cell after the first one.
        pool.submit(uvloop.run, _publish(stack, plant, [0])).result()
        page.goto(f"/console/o/{slug}/plants/{plant_id}/live")
        page.locator(_CELL).wait_for()
        page.wait_for_timeout(2_000)  # until the stream is open
        page.evaluate(_NOTE_VALUES)
        publishing = pool.submit(uvloop.run, _publish(stack, plant, range(1, values + 1)))
        page.wait_for_function(_LAST_IS, arg=values, timeout=values * _LONGEST_SECONDS * 1_000 + _TIMEOUT)
        published = publishing.result()
    shown: list[tuple[float, float]] = page.evaluate("window.shown")
    return [next(at for value, at in shown if value >= number) - began for number, began in enumerate(published, 1)]


def _provision(stack: Stack, plant_id: str) -> BenchPlant:
    """Give a plant a secret and a token."""
    key, id, keyring = secrets.token_bytes(32), UUID(plant_id), stack.keyring
    encrypted = keyring.encrypt(key, table="plant_secret", column="hmac_secret", row_id=id)
    with psycopg.connect(stack.database_url) as db:
        # That of the fleet is newer than any that the plant publishes.
        db.execute("DELETE FROM plant_power WHERE plant_id = %s", (id,))
        db.execute("UPDATE plant SET auth_method = 'TOKEN' WHERE id = %s", (id,))
        db.execute(
            "INSERT INTO plant_secret (plant_id, key_version, hmac_secret) VALUES (%s, %s, %s)",
            (id, keyring.current_version, encrypted),
        )
    return BenchPlant(plant_id, key, PlantTokens(keyring, timedelta(days=1)).issue(id).token, (_DEVICE,), ())


async def _publish(stack: Stack, plant: BenchPlant, values: Sequence[int]) -> list[float]:
    """Publish values, and return when each was, in epoch milliseconds."""
    address, published = topic(plant.id, Channel.TELEMETRY), []
    publishers = await Publishers.connect([plant], stack.settings.mqtt_port)
    try:
        for value in values:
            await asyncio.sleep(random.uniform(_SHORTEST_SECONDS, _LONGEST_SECONDS))
            now = time.time() * 1_000
            payload = f'{{"time":{now:.0f},"devices":[{{"id":"{_DEVICE}","fields":{{"{_SIGNAL}":{value}}}}}]}}'
            body = sign_message(plant.key, address, new_id().hex, int(now), payload.encode())
            published.append(time.time() * 1_000)
            await publishers.publish([Sent(0, address, body, None)])
    finally:
        publishers.close()
    return published
