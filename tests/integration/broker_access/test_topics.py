"""What a plant may do once it is logged in: its own three topics up, its own commands down, nothing else."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import aiormq
import httpx
import pytest

from gridfleet.domains.plants.topology import PLANTS_VHOST, UNROUTED_QUEUE, ingest_queue
from gridfleet.local.secrets import local_secret
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import (
    SUBSCRIBE,
    SUBSCRIPTION_REFUSED,
    Connection,
    Login,
    Lost,
    Refused,
    Will,
    connect,
    packet,
    text,
)
from support.clients.raw_properties import NotUtf8
from support.servers.broker_version import broker_version

METHODS = ("MTLS", "TOKEN", "PASSWORD")


@pytest.fixture(scope="module")
def plants(fleet: Fleet) -> dict[str, Plant]:
    """One ACTIVE plant of each method."""
    return {method: fleet.plant(method) for method in METHODS}


@pytest.fixture(scope="module")
def victim(fleet: Fleet) -> Plant:
    """The plant that the others want to harm."""
    return fleet.plant("PASSWORD")


@pytest.fixture
async def victims_connection(victim: Plant) -> AsyncIterator[Connection]:
    """The victim, connected and listening for commands."""
    async with await victim.connect() as connection:
        assert await connection.subscribe(victim.topic("commands")) == [1]
        yield connection


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def send_command(fleet: Fleet, plant: Plant, body: bytes) -> None:
    """Publishes as the service does."""
    connection = await aiormq.connect(f"{service_url(fleet)}/{PLANTS_VHOST}")
    try:
        channel = await connection.channel()
        await channel.basic_publish(body, exchange="amq.topic", routing_key=plant.topic("commands").replace("/", "."))
    finally:
        await connection.close()


def service_url(fleet: Fleet) -> str:
    password = local_secret(fleet.stack.home, "broker_password")
    return f"amqp://_gridfleet:{password}@127.0.0.1:{fleet.stack.ports['amqp_port']}"


async def is_cut_off_publishing(plant: Plant, topic: str, qos: int = 1) -> bool:
    async with await plant.connect() as connection:
        try:
            await connection.publish(topic, b'{"status":"OFFLINE"}', qos=qos, retain=True)
            await connection.ping()
        except Lost:
            return True
    return False


# Client ids


@pytest.mark.parametrize("method", METHODS)
async def test_another_plants_client_id_is_refused_and_closes_no_connection(
    plants: dict[str, Plant], victim: Plant, victims_connection: Connection, method: str
) -> None:
    plant = plants[method]
    for client_id in (victim.id, f"{victim.id}-1", f"{victim.id}x", f"x{plant.id}", f"{plant.id}x"):
        with pytest.raises(Refused):
            async with await plant.connect(replace(plant.login, client_id=client_id)):
                pass
    await victims_connection.ping()
    await victims_connection.publish(victim.topic("status"), b'{"status":"ONLINE"}')


@pytest.mark.parametrize("method", ["MTLS", "TOKEN"])
async def test_a_suffix_is_for_password_plants(plants: dict[str, Plant], method: str) -> None:
    with pytest.raises(Refused):
        async with await plants[method].connect(replace(plants[method].login, client_id=f"{plants[method].id}-1")):
            pass


async def test_a_password_plant_may_have_several_clients(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    async with AsyncExitStack() as open_connections:
        connections = [
            await open_connections.enter_async_context(await plant.connect(replace(plant.login, client_id=client_id)))
            for client_id in (plant.id, f"{plant.id}-1", f"{plant.id}-second one/#")
        ]
        for connection in connections:
            assert await connection.subscribe(plant.topic("commands")) == [1]
        await send_command(fleet, plant, b"do")
        for connection in connections:
            async with asyncio.timeout(5):
                assert await connection.received.get() == (plant.topic("commands"), b"do")


async def test_a_password_plant_cannot_invent_any_number_of_client_ids(fleet: Fleet) -> None:
    """The broker keeps a session for each, and in a cluster an Erlang atom that it never frees."""
    plant = fleet.plant("PASSWORD")

    async def login(client_id: str) -> None:
        async with await plant.connect(replace(plant.login, client_id=client_id)) as connection:
            await connection.ping()

    admitted = 0
    with contextlib.suppress(Refused):
        while admitted < 60:
            await login(f"{plant.id}-{admitted}")
            admitted += 1
    assert 20 <= admitted <= 40, "the bound of an hour, or of two"
    for client_id in (plant.id, f"{plant.id}-{admitted - 1}"):
        await login(client_id)
    with pytest.raises(Refused):
        await login(f"{plant.id}-{'x' * 128}")


async def test_a_client_id_that_is_not_utf_8_is_refused(plants: dict[str, Plant]) -> None:
    """RabbitMQ 4.0 cannot list the queues of any vhost while one has a name that is not UTF-8."""
    plant = plants["PASSWORD"]
    with pytest.raises(Refused):
        async with await plant.connect(replace(plant.login, client_id=NotUtf8(f"{plant.id}-x"))) as connection:
            await connection.subscribe(plant.topic("commands"))


@pytest.mark.parametrize("method", METHODS)
async def test_a_client_without_an_id_is_refused(plants: dict[str, Plant], method: str) -> None:
    with pytest.raises(Refused):
        async with await plants[method].connect(replace(plants[method].login, client_id="")):
            pass


async def test_a_plants_own_second_connection_replaces_the_first(plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    async with await plant.connect() as first, await plant.connect() as second:
        await first.wait_lost()
        await second.ping()


# Publishing


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("channel", ["telemetry", "status", "ack", "commands"])
async def test_others_topics_cannot_be_published_to(
    plants: dict[str, Plant], victim: Plant, victims_connection: Connection, method: str, channel: str
) -> None:
    victim.set_online()
    assert await is_cut_off_publishing(plants[method], victim.topic(channel))
    await victims_connection.ping()
    assert victims_connection.received.empty()
    assert victim.status() == "ONLINE"
    assert victim.refused() == []


@pytest.mark.parametrize("method", METHODS)
async def test_its_own_commands_cannot_be_published_to(plants: dict[str, Plant], method: str) -> None:
    plant = plants[method]
    for qos in (0, 1):
        assert await is_cut_off_publishing(plant, plant.topic("commands"), qos)


async def test_no_other_topic_can_be_published_to(plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    own = plant.topic()
    topics = ["", "v1", "a/b", f"{own}/x", f"/{own}", own.upper(), "$SYS/x", f"v1/plants/{uuid4()}/telemetry"]
    topics += [f"v1/plants/{plant.id}/telemetry ", f"v1/plants/{plant.id}", f"v1/plants/{plant.id}/other"]
    for topic in topics:
        assert await is_cut_off_publishing(plant, topic), topic


async def test_a_topic_is_no_way_around_its_own_meaning(fleet: Fleet, plants: dict[str, Plant]) -> None:
    """The broker makes dots of slashes: a topic with dots in it must not become another's."""
    plant = plants["PASSWORD"]
    before = await waiting(fleet, UNROUTED_QUEUE)
    for topic in (f"v1.plants.{plant.id}.telemetry", f"v1/plants/{plant.id}.telemetry", f"v1.plants/{plant.id}/commands"):
        await is_cut_off_publishing(plant, topic)
    assert await waiting(fleet, UNROUTED_QUEUE) == before


async def waiting(fleet: Fleet, queue: str) -> int | None:
    connection = await aiormq.connect(f"{service_url(fleet)}/{PLANTS_VHOST}")
    try:
        return (await (await connection.channel()).queue_declare(queue, passive=True)).message_count
    finally:
        await connection.close()


@pytest.mark.parametrize("method", METHODS)
async def test_its_own_topics_take_retained_messages_and_both_levels_of_service(plants: dict[str, Plant], method: str) -> None:
    plant = plants[method]
    async with await plant.connect() as connection:
        for number, (qos, retain) in enumerate([(0, False), (0, True), (1, False), (1, True)]):
            message = plant.signed({"time": now(), "fields": {f"a{number}": number}})
            await connection.publish(plant.topic(), message, qos=qos, retain=retain)
        await connection.publish(plant.topic("ack"), plant.signed({}, topic=plant.topic("ack")))
        wait_for(lambda: {"a0", "a1", "a2", "a3"} <= plant.latest().keys())


# Subscribing


@pytest.mark.parametrize("method", METHODS)
async def test_only_its_own_commands_can_be_subscribed_to(
    fleet: Fleet, plants: dict[str, Plant], victim: Plant, method: str
) -> None:
    plant = plants[method]
    filters = ["#", "+/#", "v1/#", "v1/plants/+/commands", "v1/plants/#", f"v1/plants/{plant.id}/#", f"v1/plants/{plant.id}/+"]
    filters += ["$SYS/#", "$SYS/broker", victim.topic("commands"), victim.topic("telemetry"), victim.topic("status")]
    filters += [plant.topic("telemetry"), plant.topic("status"), plant.topic("ack"), "$share/x/v1/plants/+/commands", ""]
    filters += ["v1.plants.*.commands", "v1/plants/*/commands", f"v1/plants/{plant.id}/commands/#"]
    for wanted in filters:
        async with await plant.connect() as connection:
            try:
                granted = await connection.subscribe(wanted)
            except (Lost, TimeoutError):
                continue
            assert granted == [SUBSCRIPTION_REFUSED], wanted
            await send_command(fleet, victim, b"for the victim")
            await receives_nothing(connection)


async def receives_nothing(connection: Connection) -> None:
    await asyncio.sleep(0.2)
    with contextlib.suppress(Lost):
        await connection.ping()
    assert connection.received.empty()


async def test_a_forbidden_filter_among_allowed_ones_gives_nothing_of_others(
    fleet: Fleet, plants: dict[str, Plant], victim: Plant
) -> None:
    plant = plants["PASSWORD"]
    async with await plant.connect() as connection:
        try:
            granted = await connection.subscribe(plant.topic("commands"), victim.topic("commands"))
            assert granted[1] == SUBSCRIPTION_REFUSED
        except Lost:
            return
        await send_command(fleet, victim, b"for the victim")
        await receives_nothing(connection)


@pytest.mark.parametrize("method", METHODS)
async def test_a_command_waits_for_its_plant_alone(fleet: Fleet, method: str) -> None:
    plant = fleet.plant(method)
    login = replace(plant.login, clean_session=False)
    async with await plant.connect(login) as connection:
        assert await connection.subscribe(plant.topic("commands")) == [1]
        await connection.disconnect()
    await send_command(fleet, plant, b"while away")
    async with await plant.connect(login) as connection:
        async with asyncio.timeout(5):
            assert await connection.received.get() == (plant.topic("commands"), b"while away")


@pytest.mark.skipif(broker_version() < (3, 12), reason="RabbitMQ before 3.12 subscribes over a channel, which takes turns")
async def test_subscriptions_take_turns_that_end_with_the_plants_access(fleet: Fleet) -> None:
    """Each change of the quality of service changes tables of the broker that it locks, so that logins of others wait."""
    plant = fleet.plant("PASSWORD")
    filters = (text(plant.topic("commands")) + bytes([number % 2]) for number in range(3_000))
    async with await plant.connect() as connection:
        connection.writer.write(packet(SUBSCRIBE, bytes([0, 1]) + b"".join(filters)))
        # With fifty changes in a second this takes a minute, and three seconds if nothing bounds it.
        with pytest.raises(TimeoutError):
            await connection.ping(20)
        await asyncio.to_thread(fleet.call, "POST", f"/plants/{plant.id}/revoke")
        await connection.wait_lost(10)


# Last Wills


@pytest.mark.parametrize("method", METHODS)
async def test_a_will_on_a_foreign_topic_is_not_sent(
    plants: dict[str, Plant], victim: Plant, victims_connection: Connection, method: str
) -> None:
    victim.set_online()
    plant = plants[method]
    for topic, body in [(victim.topic("status"), b'{"status":"OFFLINE"}'), (victim.topic("commands"), b"evil")]:
        try:
            async with await plant.connect(replace(plant.login, will=Will(topic, body))) as connection:
                await connection.ping()
                await connection.close()
        except Refused:
            continue
    await asyncio.sleep(1)
    await victims_connection.ping()
    assert victims_connection.received.empty()
    assert victim.status() == "ONLINE"


@pytest.mark.parametrize("method", METHODS)
async def test_a_will_on_its_own_status_reports_that_it_is_gone(fleet: Fleet, method: str) -> None:
    plant = fleet.plant(method)
    will = Will(plant.topic("status"), b'{"status":"OFFLINE","reason":"connection lost"}')
    async with await plant.connect(replace(plant.login, will=will)) as connection:
        await connection.publish(plant.topic("status"), b'{"status":"ONLINE"}', retain=True)
        wait_for(lambda: plant.status() == "ONLINE")
        await connection.close()
    wait_for(lambda: plant.status() == "OFFLINE")


# Doors beside MQTT


@pytest.mark.parametrize("method", ["TOKEN", "PASSWORD"])
async def test_a_plants_credentials_are_of_no_use_at_amqp(fleet: Fleet, plants: dict[str, Plant], method: str) -> None:
    plant = plants[method]
    for vhost in ("plants", "%2F", ""):
        url = f"amqp://{plant.id}:{plant.password}@127.0.0.1:{fleet.stack.ports['amqp_port']}/{vhost}"
        with pytest.raises((aiormq.exceptions.AMQPError, ConnectionError)):
            await (await aiormq.connect(url)).close()


async def test_a_plants_certificate_is_of_no_use_at_amqps(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["MTLS"]
    context = plant.tls()
    for userinfo in (f"{plant.id}:", f"{plant.id}:x", "guest:guest"):
        url = f"amqps://{userinfo}@localhost:{fleet.stack.ports['amqps_port']}/plants"
        with pytest.raises((aiormq.exceptions.AMQPError, ConnectionError)):
            await (await aiormq.connect(url, context=context)).close()


@pytest.mark.parametrize("method", ["TOKEN", "PASSWORD"])
def test_a_plants_credentials_are_of_no_use_at_the_management_api(fleet: Fleet, plants: dict[str, Plant], method: str) -> None:
    plant = plants[method]
    base = f"http://127.0.0.1:{fleet.stack.ports['management_port']}/api"
    for path in ("/overview", "/whoami", "/users", "/queues/plants", "/connections", "/definitions"):
        assert httpx.get(base + path, auth=(plant.id, plant.password or "")).status_code == 401, path
    publish = {"routing_key": ingest_queue(0), "payload": "x", "payload_encoding": "string", "properties": {}}
    answer = httpx.post(f"{base}/exchanges/plants/amq.default/publish", json=publish, auth=(plant.id, plant.password or ""))
    assert answer.status_code == 401


@pytest.mark.parametrize("account", ["guest:guest", "_gridfleet:", "_gridfleet:guest", "_gridfleet:_gridfleet", "admin:admin"])
async def test_the_service_account_has_no_default_password(fleet: Fleet, account: str) -> None:
    with pytest.raises((aiormq.exceptions.AMQPError, ConnectionError)):
        await (await aiormq.connect(f"amqp://{account}@127.0.0.1:{fleet.stack.ports['amqp_port']}/plants")).close()
    name, password = account.split(":")
    base = f"http://127.0.0.1:{fleet.stack.ports['management_port']}/api"
    assert httpx.get(f"{base}/whoami", auth=(name, password)).status_code == 401


def test_the_brokers_only_own_user_has_a_long_random_password(fleet: Fleet) -> None:
    password = local_secret(fleet.stack.home, "broker_password")
    assert len(password) >= 40
    base = f"http://127.0.0.1:{fleet.stack.ports['management_port']}/api"
    users = httpx.get(f"{base}/users", auth=("_gridfleet", password)).raise_for_status().json()
    assert [user["name"] for user in users] == ["_gridfleet"]


# The internal listener


QUESTIONS = ("user", "vhost", "resource", "topic")


def test_the_internal_listener_answers_nothing_without_its_secret(fleet: Fleet, plants: dict[str, Plant]) -> None:
    base = f"http://127.0.0.1:{fleet.stack.ports['internal_port']}"
    plant = plants["PASSWORD"]
    form = {"username": plant.id, "password": plant.password, "vhost": "plants", "client_id": plant.id}
    for start in (
        "",
        "/",
        "//",
        "/x",
        "/internal",
        "/..",
        "/%2e%2e",
        f"/{local_secret(fleet.stack.home, 'internal_secret')[:-1]}",
    ):
        for question in QUESTIONS:
            answer = httpx.post(f"{base}{start}/broker/{question}", data=form)
            assert (answer.status_code, answer.text) == (404, "not found"), start
    for path in ("/", "/api/v1/health/live", "/docs", "/metrics/x", "/api/v1/plants"):
        assert httpx.get(base + path).status_code == 404, path


def test_the_internal_listener_with_its_secret_is_the_one_the_broker_asks(fleet: Fleet, plants: dict[str, Plant]) -> None:
    """So the test before fails for the secret alone."""
    secret = local_secret(fleet.stack.home, "internal_secret")
    base = f"http://127.0.0.1:{fleet.stack.ports['internal_port']}/{secret}/broker"
    plant = plants["PASSWORD"]
    form = {"username": plant.id, "password": plant.password, "vhost": "plants", "client_id": plant.id}
    assert httpx.post(f"{base}/user", data=form).text == "allow"
    assert httpx.post(f"{base}/user", data=form | {"password": ""}).text == "deny"
    assert httpx.post(f"{base}/vhost", data=form).text == "allow"
    assert httpx.post(f"{base}/vhost", data=form | {"vhost": "/"}).text == "deny"
    assert httpx.post(f"{base}/vhost", data={**form, "client_id": ""}).text == "deny"
    assert httpx.get(f"{base}/user", params=form).status_code == 404


def test_the_public_listener_does_not_ask_for_the_broker(fleet: Fleet) -> None:
    secret = local_secret(fleet.stack.home, "internal_secret")
    for question in QUESTIONS:
        assert httpx.post(f"{fleet.stack.base_url}/{secret}/broker/{question}", data={"username": "x"}).status_code == 404


async def test_a_nonsense_login_leaves_the_listener_in_order(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    for username in ("\x7f", "a" * 5_000, "%00", "=&password=", "ünïcödé", "' OR 1=1 --"):
        with pytest.raises(Refused):
            async with await connect(fleet.stack.ports["mqtt_port"], Login(plant.id, username, "x")):
                pass
    async with await plant.connect() as connection:
        await connection.ping()
