"""Session queues of plants follow the type that the broker is configured for."""

import asyncio
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import SecretStr

from gridfleet.amqp.upkeep import keep_broker
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.security.certificates import Authority
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.secrets import ensure_local_secrets
from support.clients.lean_mqtt import Connection, Login, Lost, Refused, connect
from support.servers.free_ports import settings_at
from support.servers.running_task import running

PLANT = str(uuid4())
USER = f"SERIALNUMBER=1,CN={PLANT}"
TOPIC = f"v1/plants/{PLANT}/commands"
QUEUE = f"mqtt-subscription-{PLANT}qos1"


async def test_a_classic_session_is_replaced_once_the_broker_makes_quorum_ones(home: Path) -> None:
    settings = settings_at(home)
    ensure_local_secrets(home)
    write_server_certificate(home / "ca", Authority.create(), ["localhost"])
    node = PrivateBroker(settings)
    service = settings.model_copy(
        update={
            "broker_url": SecretStr(node.url),
            "broker_management_url": SecretStr(node.management_url),
            "broker_queue_type": "quorum",
            "ingest_shards": 1,
        }
    )
    login = Login(PLANT, USER, "a password", clean_session=False)

    async def session_type() -> str:
        async with await connected(settings.mqtt_port, login) as connection:
            assert await connection.subscribe(TOPIC) == [1]
            async with open_management(node.management_url) as management:
                return (await management.queue_types(PLANTS_VHOST))[QUEUE]

    try:
        await asyncio.to_thread(node.start)
        await add_user(node.management_url)
        async with await connected(settings.mqtt_port, login) as connection:
            assert await connection.subscribe(TOPIC) == [1]
            async with running(keep_broker(service)):
                await connection.wait_lost(60)
        assert await session_type() == "classic"
        await asyncio.to_thread(node.stop)
        (home / "broker" / "conf.d").mkdir()
        (home / "broker" / "conf.d" / "sessions.conf").write_text("mqtt.durable_queue_type = quorum\n")
        await asyncio.to_thread(node.start)
        async with running(keep_broker(service)), asyncio.timeout(100):
            while True:
                try:
                    if await session_type() == "quorum":
                        break
                except Lost:  # upkeep deletes the classic session, which closes its connection
                    pass
                await asyncio.sleep(1)
    finally:
        await asyncio.to_thread(node.stop)


async def add_user(management_url: str) -> None:
    """Add a user of the broker's own, named like a plant with a certificate. No service authorises plants here."""
    url = httpx.URL(management_url)
    async with httpx.AsyncClient(base_url=url, auth=(url.username, url.password)) as http:
        user = await http.put(f"/api/users/{USER}", json={"password": "a password", "tags": ""})
        user.raise_for_status()
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        granted = await http.put(f"/api/permissions/{quote(PLANTS_VHOST, safe='')}/{USER}", json=rights)
        granted.raise_for_status()


async def connected(port: int, login: Login) -> Connection:
    """A connection once the node takes it: not while it starts, and on 3.10 not while the old session exists."""
    while True:
        try:
            return await connect(port, login)
        except Refused:
            await asyncio.sleep(0.5)
