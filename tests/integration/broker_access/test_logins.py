"""Who may log in to the broker as a plant, tried over real MQTT with wrong credentials of every kind."""

import asyncio
import ssl
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import UUID, uuid4

import aiormq
import httpx
import joserfc.jwk
import joserfc.jwt
import psycopg
import pytest

from gridfleet.domains.plants.mqtt_access.login_limit import MOST_AN_HOUR
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.kernel.db.outbox import CHANNEL
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.secrets import local_secret
from support.builders.plant_tokens import forged_token
from support.clients import lean_mqtt
from support.clients.fleet_under_test import Fleet, Plant, tls_context, wait_for
from support.clients.lean_mqtt import BAD_CREDENTIALS, NOT_AUTHORISED, Login, Lost, Refused, connect
from support.servers.broker_node import evaluate

METHODS = ("MTLS", "TOKEN", "PASSWORD")
REFUSED = (BAD_CREDENTIALS, NOT_AUTHORISED)
HOUR = timedelta(hours=1)
NOTICED_SECONDS = 1
"""Within which the ingest has received a change and worked off what came before it."""


@pytest.fixture(scope="module")
def plants(fleet: Fleet) -> dict[str, Plant]:
    """One ACTIVE plant of each method, for tests that leave it as it is."""
    return {method: fleet.plant(method) for method in METHODS}


@pytest.fixture(scope="module")
def others(fleet: Fleet) -> dict[str, Plant]:
    """Second plants of each method."""
    return {method: fleet.plant(method) for method in METHODS}


async def refusal(plant: Plant, login: Login | None = None, tls: ssl.SSLContext | None = None) -> int | None:
    """The broker's code for a refused login; fails when it is let in."""
    context = tls or plant.tls()
    with pytest.raises(Refused) as refused:
        async with await connect(plant.fleet.stack.ports["mqtts_port"], login or plant.login, context):
            pass
    return refused.value.code


async def is_let_in(plant: Plant, login: Login | None = None, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a login succeeds and the connection is of use."""
    async with await connect(plant.fleet.stack.ports["mqtts_port"], login or plant.login, tls or plant.tls()) as connection:
        await connection.publish(plant.topic("status"), b'{"status":"ONLINE"}')
        await connection.disconnect()
    return True


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_lets_its_plant_in(plants: dict[str, Plant], method: str) -> None:
    assert await is_let_in(plants[method])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("password", [None, "", "wrong", "null", "\0", "x" * 60_000])
async def test_a_wrong_password_is_refused(plants: dict[str, Plant], method: str, password: str | None) -> None:
    plant = plants[method]
    login = Login(plant.id, plant.id, password)
    assert await refusal(plant, login, plant.tls(certificate=False)) in (*REFUSED, None)


@pytest.mark.parametrize("method", METHODS)
async def test_a_login_without_a_name_is_refused(plants: dict[str, Plant], method: str) -> None:
    plant = plants[method]
    context = plant.tls(certificate=False)
    assert await refusal(plant, Login(plant.id), context) in REFUSED
    assert await refusal(plant, Login(plant.id, ""), context) in REFUSED
    assert await refusal(plant, Login(plant.id, "", ""), context) in REFUSED


async def test_another_plants_password_is_refused(plants: dict[str, Plant], others: dict[str, Plant]) -> None:
    plant, other = plants["PASSWORD"], others["PASSWORD"]
    assert await refusal(plant, Login(plant.id, plant.id, other.password)) in REFUSED


async def test_a_name_has_one_spelling(plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    spellings = [plant.id.upper(), plant.id.replace("-", ""), f"{{{plant.id}}}", f"urn:uuid:{plant.id}", f" {plant.id}"]
    spellings += [f"{plant.id} ", f"SERIALNUMBER=1,CN={plant.id}", f"/:{plant.id}", f"partner-x:{plant.id}"]
    for spelling in spellings:
        assert await refusal(plant, Login(plant.id, spelling, plant.password)) in REFUSED, spelling


async def test_the_services_own_account_needs_its_password(plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    for name, password in (("_gridfleet", ""), ("_gridfleet", "_gridfleet"), ("guest", "guest"), ("admin", "admin")):
        assert await refusal(plant, Login(plant.id, name, password)) in REFUSED


async def test_a_refused_login_is_counted_until_a_good_one(fleet: Fleet) -> None:
    plant = fleet.plant("PASSWORD")
    for _ in range(3):
        await refusal(plant, Login(plant.id, plant.id, "wrong"))
    seen = fleet.call("GET", f"/plants/{plant.id}")
    assert seen["authFailureCount"] == 3
    assert seen["lastAuthFailureAt"] is not None
    assert await is_let_in(plant)
    assert fleet.call("GET", f"/plants/{plant.id}")["authFailureCount"] == 0


# Certificates


async def test_refused_logins_of_a_plant_that_is_being_written_delay_no_others(fleet: Fleet) -> None:
    """They would hold all connections for the broker's requests for as long as a batch of ingest locks the plant."""
    plant, other = fleet.plant("PASSWORD"), fleet.plant("PASSWORD")
    wrong = replace(plant.login, password="wrong")
    with psycopg.connect(fleet.stack.database_url) as batch:
        batch.execute("SELECT FROM plant WHERE id = %s FOR NO KEY UPDATE", [plant.id])
        refused = [asyncio.create_task(refusal(plant, wrong)) for _ in range(24)]
        await asyncio.sleep(1)
        assert await is_let_in(other)
        assert {await one for one in refused} <= set(REFUSED)


async def test_another_plants_certificate_does_not_open_this_one(plants: dict[str, Plant], others: dict[str, Plant]) -> None:
    plant, other = plants["MTLS"], others["MTLS"]
    assert await refusal(plant, Login(plant.id), other.tls()) in REFUSED
    assert await refusal(plant, Login(plant.id, plant.id, ""), other.tls()) in REFUSED
    assert await refusal(plant, Login(plant.id, plant.id, "x"), other.tls()) in REFUSED


async def test_a_self_made_certificate_with_the_right_name_is_refused(plants: dict[str, Plant]) -> None:
    plant = plants["MTLS"]
    forged = Authority.create().issue_client(plant.id)
    context = tls_context(plant.package["security"]["caCert"], forged.certificate_pem + forged.key_pem)
    with pytest.raises((ssl.SSLError, Refused, ConnectionError)):
        async with await connect(plant.fleet.stack.ports["mqtts_port"], Login(plant.id), context):
            pass


async def test_a_client_certificate_signs_no_others(plants: dict[str, Plant], others: dict[str, Plant]) -> None:
    plant, other = plants["MTLS"], others["MTLS"]
    security = other.package["security"]
    forged = Authority(security["clientCert"], security["clientKey"]).issue_client(plant.id)
    chain = forged.certificate_pem + security["clientCert"] + forged.key_pem
    with pytest.raises((ssl.SSLError, Refused, ConnectionError)):
        async with await connect(
            plant.fleet.stack.ports["mqtts_port"], Login(plant.id), tls_context(security["caCert"], chain)
        ):
            pass


@pytest.fixture
def renewed(fleet: Fleet) -> Plant:
    """A plant whose certificate has just been replaced; its package still holds the old one."""
    plant = fleet.plant("MTLS")
    [[serial]] = fleet.sql("SELECT certificate_serial_number FROM plant WHERE id = %s", [plant.id])
    plant.update(
        certificate_serial_number=f"{uuid4().int:x}",
        previous_certificate_serial_number=serial,
        previous_certificate_valid_until=datetime.now(UTC) + HOUR,
    )
    return plant


async def test_a_superseded_certificate_is_good_for_an_hour_and_no_longer(renewed: Plant) -> None:
    assert await is_let_in(renewed)
    renewed.update(previous_certificate_valid_until=datetime.now(UTC) - timedelta(seconds=1))
    assert await refusal(renewed) in REFUSED
    renewed.update(previous_certificate_valid_until=None)
    assert await refusal(renewed) in REFUSED


async def test_a_certificate_from_before_the_last_is_refused(renewed: Plant) -> None:
    renewed.update(previous_certificate_serial_number=f"{uuid4().int:x}")
    assert await refusal(renewed) in REFUSED


async def test_an_expired_certificate_is_refused(fleet: Fleet) -> None:
    plant = fleet.plant("MTLS")
    plant.update(certificate_expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert await refusal(plant) in REFUSED


async def test_a_certificate_that_is_expired_itself_fails_in_tls(fleet: Fleet) -> None:
    plant = fleet.plant("MTLS")
    authority = fleet.authority()
    old = authority.issue_client(plant.id, timedelta(minutes=-1))
    plant.update(certificate_serial_number=old.serial_number, certificate_expires_at=datetime.now(UTC) + HOUR)
    with pytest.raises((ssl.SSLError, Refused, ConnectionError)):
        async with await connect(
            fleet.stack.ports["mqtts_port"],
            Login(plant.id),
            tls_context(authority.certificate_pem, old.certificate_pem + old.key_pem),
        ):
            pass


@pytest.mark.parametrize("method", ["TOKEN", "PASSWORD"])
async def test_a_certificate_is_no_way_in_for_other_methods(fleet: Fleet, method: str) -> None:
    """Even one of the right authority, whose serial stands in the plant's row."""
    plant = fleet.plant(method)
    authority = fleet.authority()
    issued = authority.issue_client(plant.id)
    plant.update(certificate_serial_number=issued.serial_number, certificate_expires_at=issued.expires_at)
    context = tls_context(authority.certificate_pem, issued.certificate_pem + issued.key_pem)
    assert await refusal(plant, Login(plant.id), context) in REFUSED


async def test_an_mtls_plant_has_no_password(fleet: Fleet) -> None:
    plant, donor = fleet.plant("MTLS"), fleet.plant("PASSWORD")
    [[password_hash]] = fleet.sql("SELECT password_hash FROM plant_secret WHERE plant_id = %s", [donor.id])
    plant.update_secret(password_hash=password_hash)
    login = Login(plant.id, plant.id, donor.password)
    assert await refusal(plant, login, plant.tls(certificate=False)) in REFUSED
    token = PlantTokens(fleet.keyring, HOUR).issue(UUID(plant.id)).token
    assert await refusal(plant, replace(login, password=token), plant.tls(certificate=False)) in REFUSED


# Tokens


def forged(fleet: Fleet, plant: Plant, **claims: object) -> str:
    """A token signed with the service's own Ed25519 key, claims changed."""
    now = int(datetime.now(UTC).timestamp())
    return forged_token(fleet.keyring, **{"aud": "mqtt", "sub": plant.id, "iat": now, "exp": now + 3600} | claims)


async def test_a_token_forged_like_the_services_is_good(fleet: Fleet, plants: dict[str, Plant]) -> None:
    """So what the next test changes is what it is refused for."""
    plant = plants["TOKEN"]
    assert await is_let_in(plant, replace(plant.login, password=forged(fleet, plant)))


@pytest.mark.parametrize(
    "claims", [{"exp": 1_700_000_000}, {"aud": "api"}, {"sub": str(uuid4())}, {"exp": None}, {"exp": "never"}, {"sub": 1}]
)
async def test_a_token_with_wrong_claims_is_refused(fleet: Fleet, plants: dict[str, Plant], claims: dict[str, object]) -> None:
    plant = plants["TOKEN"]
    assert await refusal(plant, replace(plant.login, password=forged(fleet, plant, **claims))) in REFUSED


async def test_an_expired_token_is_refused(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["TOKEN"]
    expired = PlantTokens(fleet.keyring, timedelta(seconds=-1)).issue(UUID(plant.id))
    assert await refusal(plant, replace(plant.login, password=expired.token)) in REFUSED


async def test_a_token_ends_with_the_secret_of_its_time(fleet: Fleet) -> None:
    """A person who had that secret may have requested the token just before the secret was replaced."""
    plant = fleet.plant("TOKEN")
    old = plant.login
    fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
    assert await is_let_in(plant, old)
    for until in (datetime.now(UTC) - timedelta(seconds=1), None):
        plant.update_secret(previous_valid_until=until)
        assert await refusal(plant, old) in REFUSED
        assert await is_let_in(plant)


async def test_a_token_of_an_earlier_secret_does_not_become_valid_again(fleet: Fleet) -> None:
    """Neither a second rotation within the hour nor a later one extends the tokens from before the first."""
    plant = fleet.plant("TOKEN")
    first = plant.login
    fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
    second = replace(first, password=fleet.call("POST", f"/plants/{plant.id}/mqtt-token")["token"])
    for _ in range(2):
        fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
        assert await refusal(plant, first) in REFUSED
        third = replace(first, password=fleet.call("POST", f"/plants/{plant.id}/mqtt-token")["token"])
        assert await is_let_in(plant, third)
    assert await refusal(plant, second) in REFUSED
    fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
    assert await is_let_in(plant, third)


async def test_a_connection_with_a_token_ends_with_a_replaced_secret(fleet: Fleet) -> None:
    plant = fleet.plant("TOKEN")
    async with await plant.connect() as connection:
        fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
        await asyncio.sleep(NOTICED_SECONDS)
        await connection.ping()
        an_hour_later = "UPDATE outbox SET due_at = due_at - interval '1 hour' WHERE payload->'names' ? %s RETURNING kind"
        for (kind,) in fleet.sql(an_hour_later, [plant.id]):
            fleet.sql("SELECT pg_notify(%s, %s)", [CHANNEL, kind])
        await connection.wait_lost(30)
        assert connection.lost


async def test_another_plants_token_is_refused(plants: dict[str, Plant], others: dict[str, Plant]) -> None:
    plant, other = plants["TOKEN"], others["TOKEN"]
    assert await refusal(plant, replace(plant.login, password=other.password)) in REFUSED


async def test_a_token_signed_by_another_key_is_refused(plants: dict[str, Plant]) -> None:
    plant = plants["TOKEN"]
    stranger = PlantTokens(Keyring.parse(Keyring.generate()), HOUR).issue(UUID(plant.id))
    assert await refusal(plant, replace(plant.login, password=stranger.token)) in REFUSED


async def test_a_token_without_signature_or_of_another_algorithm_is_refused(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["TOKEN"]
    header, body, _ = forged(fleet, plant).split(".")
    unsigned = urlsafe_b64encode(b'{"alg":"none","kid":"1"}').rstrip(b"=").decode()
    symmetric = joserfc.jwt.encode(
        {"alg": "HS256", "kid": "1"},
        {"aud": "mqtt", "sub": plant.id, "exp": 4_000_000_000},
        joserfc.jwk.OctKey.import_key(fleet.keyring.derive("access tokens")),
        algorithms=["HS256"],
    )
    for token in (f"{header}.{body}.", f"{unsigned}.{body}.", symmetric):
        assert await refusal(plant, replace(plant.login, password=token)) in REFUSED


async def test_a_persons_access_token_is_no_plants_token(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["TOKEN"]
    token = fleet.call("POST", "/auth/login", {"email": fleet.stack.admin_email, "password": fleet.stack.admin_password})[
        "access_token"
    ]
    assert await refusal(plant, replace(plant.login, password=token)) in REFUSED


# States


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", ["PENDING", "DECOMMISSIONED"])
async def test_a_plant_that_does_not_work_cannot_log_in(fleet: Fleet, method: str, state: str) -> None:
    """With credentials that were good a moment ago."""
    plant = fleet.plant(method)
    login = plant.login
    assert await is_let_in(plant, login)
    plant.update(lifecycle_status=state)
    assert await refusal(plant, login) in REFUSED


async def test_a_plant_that_was_never_provisioned_cannot_log_in(fleet: Fleet, plants: dict[str, Plant]) -> None:
    pending = fleet.register("PASSWORD")
    context = plants["PASSWORD"].tls(certificate=False)
    for password in ("", "None", "null"):
        assert await refusal(pending, Login(pending.id, pending.id, password), context) in REFUSED


@pytest.mark.parametrize("method", METHODS)
async def test_a_suspended_plant_connects_and_is_ignored(fleet: Fleet, method: str) -> None:
    plant = fleet.plant(method)
    login = plant.login
    async with await plant.connect(login) as connection:
        await connection.publish(plant.topic(), plant.signed({"time": now(), "fields": {"a": 1}}))
        wait_for(lambda: plant.latest().get("a"))
    plant.update(lifecycle_status="SUSPENDED")
    await asyncio.sleep(NOTICED_SECONDS)
    refused = len(plant.refused())
    async with await plant.connect(login) as connection:
        await connection.publish(plant.topic(), plant.signed({"time": now(), "fields": {"a": 2}}))
        await connection.publish(plant.topic(), b"nonsense")
        await connection.publish(plant.topic("status"), b"nonsense")
        await asyncio.sleep(NOTICED_SECONDS)
        plant.update(lifecycle_status="ACTIVE")
        await taken_again(plant, connection)
    # The plant's order is kept: what came before the last message has been dealt with.
    assert plant.latest()["a"][1] == 1
    assert len(plant.refused()) == refused


async def taken_again(plant: Plant, connection: lean_mqtt.Connection) -> None:
    """Sends until one of the messages is stored; the ingest receives changes a moment later."""
    deadline = datetime.now(UTC) + timedelta(seconds=10)
    while "b" not in plant.latest():
        assert datetime.now(UTC) < deadline
        await connection.publish(plant.topic(), plant.signed({"time": now(), "fields": {"b": 1}}))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Listeners


async def test_the_plain_listener_takes_passwords(plants: dict[str, Plant]) -> None:
    plant = plants["PASSWORD"]
    port = plant.fleet.stack.ports["mqtt_port"]
    async with await connect(port, plant.login) as connection:
        await connection.publish(plant.topic("status"), b'{"status":"ONLINE"}')
    with pytest.raises(Refused):
        async with await connect(port, Login(plant.id, plant.id, "")):
            pass


@pytest.mark.parametrize("password", [None, "", "none", "undefined", "null", "x"])
@pytest.mark.parametrize("listener", ["plain", "tls", "tls with another plant's certificate"])
async def test_the_name_of_a_certificate_opens_nothing_without_the_certificate(
    fleet: Fleet, plants: dict[str, Plant], others: dict[str, Plant], listener: str, password: str | None
) -> None:
    """A certificate's login reaches the service without a password, or from RabbitMQ 4.0 as the atom `none`."""
    plant, intruder = plants["MTLS"], others["MTLS"]
    [[serial]] = fleet.sql("SELECT certificate_serial_number FROM plant WHERE id = %s", [plant.id])
    login = Login(plant.id, f"SERIALNUMBER={serial},CN={plant.id}", password)
    port = fleet.stack.ports["mqtt_port" if listener == "plain" else "mqtts_port"]
    context = None if listener == "plain" else intruder.tls(certificate=listener != "tls")
    with pytest.raises(Refused) as refused:
        async with await connect(port, login, context):
            pass
    assert refused.value.code in (*REFUSED, None)


@pytest.mark.parametrize("password", ["", "none"])
async def test_the_name_of_a_certificate_opens_nothing_over_amqp(fleet: Fleet, plants: dict[str, Plant], password: str) -> None:
    plant = plants["MTLS"]
    [[serial]] = fleet.sql("SELECT certificate_serial_number FROM plant WHERE id = %s", [plant.id])
    name = quote(f"SERIALNUMBER={serial},CN={plant.id}", safe="")
    authority = fleet.stack.home / "ca" / "ca.pem"
    with pytest.raises(aiormq.exceptions.AMQPError):
        await aiormq.connect(f"amqps://{name}:{password}@localhost:{fleet.stack.ports['amqps_port']}/plants?cafile={authority}")


async def test_the_plain_listener_takes_no_login_without_a_password(fleet: Fleet, plants: dict[str, Plant]) -> None:
    plant = plants["MTLS"]
    for login in (Login(plant.id), Login(plant.id, plant.id)):
        with pytest.raises(Refused):
            async with await connect(fleet.stack.ports["mqtt_port"], login):
                pass


async def test_the_plain_listener_takes_tokens_too(plants: dict[str, Plant]) -> None:
    """The broker's requests do not name the port (docs/operations.md)."""
    plant = plants["TOKEN"]
    async with await connect(plant.fleet.stack.ports["mqtt_port"], plant.login) as connection:
        await connection.publish(plant.topic("status"), b'{"status":"ONLINE"}')


async def test_the_services_certificate_is_checked_by_its_name(plants: dict[str, Plant]) -> None:
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(plants["PASSWORD"].fleet.stack.ports["mqtts_port"], plants["PASSWORD"].login, context)


@pytest.fixture
def quorum_sessions(fleet: Fleet) -> Iterator[None]:
    """The broker keeps sessions in quorum queues, as on a cluster."""
    ports = fleet.stack.ports

    def keep_in(queue_type: str) -> None:
        set_type = f"ok = rpc:call(N, application, set_env, [rabbitmq_mqtt, durable_queue_type, {queue_type}])"
        evaluate(fleet.stack.home, ports["epmd_port"], set_type)

    keep_in("quorum")
    yield
    keep_in("classic")


@pytest.mark.usefixtures("quorum_sessions")
async def test_new_sessions_of_a_plant_are_bounded(fleet: Fleet) -> None:
    """Each new quorum queue leaves memory in the broker until it restarts. A clean session deletes the plant's former one."""
    hasty, other = fleet.plant("PASSWORD"), fleet.plant("PASSWORD")

    async def has_session(plant: Plant, *, clean: bool) -> bool:
        try:
            login = replace(plant.login, clean_session=clean)
            async with await connect(fleet.stack.ports["mqtts_port"], login, plant.tls()) as connection:
                granted = await connection.subscribe(plant.topic("commands")) == [1]
                await connection.disconnect()
                return granted
        except Lost:
            return False

    created = 0
    for _ in range(45):
        created += await has_session(hasty, clean=False)
        await has_session(hasty, clean=True)
    assert 20 <= created <= 40, "20 within an hour, and a new hour may begin meanwhile"
    for clean in (False, True, False, True):
        assert await has_session(other, clean=clean)


async def test_the_logins_of_a_plant_are_bounded(fleet: Fleet) -> None:
    """Each could create a session that the broker never frees."""
    hasty, other = fleet.plant("TOKEN"), fleet.plant("TOKEN")
    secret = local_secret(fleet.stack.home, "internal_secret")
    question = f"http://127.0.0.1:{fleet.stack.ports['internal_port']}/{secret}/broker/user"

    async def answers(client: httpx.AsyncClient, plant: Plant, count: int) -> Counter[str]:
        form = {"username": plant.login.username, "password": plant.login.password}
        found = [(await client.post(question, data=form)).text for _ in range(count)]
        return Counter(found)

    async with httpx.AsyncClient(timeout=30) as client:
        found = await answers(client, hasty, MOST_AN_HOUR + 200)
        assert found["allow"] >= MOST_AN_HOUR
        assert found["deny"] >= 100
        assert await answers(client, other, 1) == {"allow": 1}
