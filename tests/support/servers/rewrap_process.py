"""Rewrap in a separate process: `python rewrap_process.py DATABASE_URL KEYRING TARGET_VERSION`. Prints the counts."""

import asyncio
import sys

from gridfleet.domains.maintenance.rewrapping import rewrap
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import open_database
from gridfleet.kernel.security.keyring import Keyring


async def main(url: str, ring: str, target: str) -> None:
    async with open_database(url, name="rewrap", size=2) as database:
        print(await rewrap(database, Keyring.parse(ring), int(target), Actor(ActorType.SYSTEM)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
