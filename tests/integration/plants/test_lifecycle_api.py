"""A plant's states, and what becomes of its credentials in each."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography import x509

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.plants.credentials.packages import delete_previous_secrets
from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY
from gridfleet.domains.plants.registry import FOLLOW_MOVES
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.envelope import sign_message
from support.builders.clock import set_clock
from support.clients.plants_over_http import Fleet

STATES = ("PENDING", "ACTIVE", "SUSPENDED", "DECOMMISSIONED")
ALLOWED = {
    "provision": {"PENDING": "ACTIVE"},
    "suspend": {"ACTIVE": "SUSPENDED"},
    "reactivate": {"SUSPENDED": "ACTIVE"},
    "revoke": dict.fromkeys(("PENDING", "ACTIVE", "SUSPENDED"), "DECOMMISSIONED"),
    "rotate-secret": {"ACTIVE": "ACTIVE", "SUSPENDED": "SUSPENDED"},
    "renew-certificate": {"ACTIVE": "ACTIVE"},
}
"""What each action makes of which state; everything else is refused."""


async def plant_in(fleet: Fleet, state: str, method: str = "MTLS") -> str:
    """The path of a plant in a state."""
    plant = await fleet.plant(authMethod=method, serialNumber=uuid4().hex)
    path = f"/plants/{plant['id']}"
    for action in {"PENDING": [], "ACTIVE": [""], "SUSPENDED": ["", "suspend"], "DECOMMISSIONED": ["", "revoke"]}[state]:
        assert (await fleet.call("POST", f"{path}/{action or 'provision'}"))[0] == 200
    return path


async def queued(fleet: Fleet) -> list[list[str]]:
    """The names whose connections are about to be closed, by effect."""
    return [payload["names"] for (payload,) in await fleet.sql("SELECT payload FROM outbox ORDER BY id")]


@pytest.mark.parametrize("action", ALLOWED)
async def test_an_action_is_allowed_in_its_states_only(fleet: Fleet, action: str) -> None:
    for state in STATES:
        path = await plant_in(fleet, state)
        before = (await fleet.call("GET", path))[1]

        status, answer = await fleet.call("POST", f"{path}/{action}")
        after = (await fleet.call("GET", path))[1]

        if state in ALLOWED[action]:
            assert status == 200, (state, answer)
            assert after["lifecycleStatus"] == ALLOWED[action][state]
        else:
            assert (status, answer["code"]) == (400, "BAD_REQUEST"), state
            assert after == before


@pytest.mark.parametrize("action", ALLOWED)
async def test_ids_and_people_are_checked_alike_for_every_action(fleet: Fleet, action: str) -> None:
    path = await plant_in(fleet, "ACTIVE")

    assert (await fleet.call("POST", f"/plants/5/{action}"))[1]["code"] == "BAD_REQUEST"
    assert (await fleet.call("POST", f"/plants/{uuid4()}/{action}"))[1]["code"] == "PLANT_NOT_FOUND"
    assert (await fleet.call("POST", f"{path}/{action}", headers=fleet.stranger))[1]["code"] == "PLANT_NOT_FOUND"
    assert (await fleet.call("POST", f"{path}/{action}", headers=fleet.operator))[1]["code"] == "FORBIDDEN"


@pytest.mark.parametrize("action", ["rotate-secret", "renew-certificate"])
async def test_secrets_are_not_cached_and_not_compressed(fleet: Fleet, action: str) -> None:
    path = await plant_in(fleet, "ACTIVE")

    answer = await fleet.service.client.post(f"/api/v1{path}/{action}", headers={**fleet.admin, "accept-encoding": "gzip"})

    assert answer.headers["cache-control"] == "no-store"
    assert "content-encoding" not in answer.headers


async def test_revoking_clears_credentials_and_closes_every_name_again_and_again(fleet: Fleet) -> None:
    path = await plant_in(fleet, "ACTIVE")
    plant_id = path.rpartition("/")[2]
    first = (await fleet.call("GET", path))[1]["certificateSerialNumber"]
    await fleet.call("POST", f"{path}/renew-certificate")
    second = (await fleet.call("GET", path))[1]["certificateSerialNumber"]
    await fleet.sql("DELETE FROM outbox")
    await fleet.sql("UPDATE plant SET status = 'ONLINE'")

    status, answer = await fleet.call("POST", f"{path}/revoke")

    assert (status, list(answer)) == (200, ["message"])
    plant = (await fleet.call("GET", path))[1]
    assert plant["lifecycleStatus"] == "DECOMMISSIONED"
    assert plant["status"] == "OFFLINE"
    for name in ("certificateSerialNumber", "certificateFingerprint", "certificateExpiresAt"):
        assert plant[name] is None
    assert await fleet.sql("SELECT 1 FROM plant_secret") == []
    names = [plant_id, f"SERIALNUMBER={second},CN={plant_id}", f"SERIALNUMBER={first},CN={plant_id}"]
    assert await queued(fleet) == [names] * 4
    organization = (plant["organizationId"],)
    assert await fleet.sql("SELECT DISTINCT payload->>'organizationId' FROM outbox") == [organization]
    due = await fleet.sql("SELECT extract(epoch FROM due_at - created_at)::float8 FROM outbox ORDER BY id")
    assert [seconds for (seconds,) in due] == pytest.approx([0, 0.5, 1.5, 10], abs=0.4)
    assert (await fleet.call("POST", f"{path}/mqtt-token"))[0] == 400
    assert (await fleet.call("GET", f"{path}/provision/download"))[0] == 400


async def test_two_changes_at_once_follow_each_other(fleet: Fleet) -> None:
    path = await plant_in(fleet, "ACTIVE")

    answers = await asyncio.gather(*(fleet.call("POST", f"{path}/{action}") for action in ["suspend", "revoke"] * 4))

    assert sorted(status for status, _ in answers).count(200) in (1, 2)
    assert [status for status, _ in answers[1::2]].count(200) == 1
    assert (await fleet.call("GET", path))[1]["lifecycleStatus"] == "DECOMMISSIONED"


async def test_a_deleted_plant_takes_everything_along(fleet: Fleet) -> None:
    path = await plant_in(fleet, "ACTIVE", "PASSWORD")
    await fleet.call("POST", f"{path}/sub-devices", {"externalId": "A", "name": "a", "type": "METER"})

    assert (await fleet.call("DELETE", path, headers=fleet.operator))[1]["code"] == "FORBIDDEN"
    assert (await fleet.call("DELETE", path, headers=fleet.stranger))[1]["code"] == "PLANT_NOT_FOUND"
    assert (await fleet.call("DELETE", "/plants/5"))[1]["code"] == "INVALID_UUID"
    status, answer = await fleet.call("DELETE", path)

    assert (status, list(answer)) == (200, ["message"])
    assert (await fleet.call("GET", path))[1]["code"] == "PLANT_NOT_FOUND"
    assert (await fleet.call("DELETE", path))[1]["code"] == "PLANT_NOT_FOUND"
    for table in ("sub_device", "plant_secret"):
        assert await fleet.sql(f"SELECT 1 FROM {table}") == []
    assert await queued(fleet) == [[path.rpartition("/")[2]]] * 4
    assert await fleet.sql("SELECT task_name FROM procrastinate_jobs") == [("telemetry.erase_deleted",)]
    assert await fleet.plant()


@pytest.mark.parametrize(("action", "job"), [("delete", ERASE_TELEMETRY), ("move", FOLLOW_MOVES)])
async def test_many_deletions_or_moves_queue_one_job(fleet: Fleet, action: str, job: str) -> None:
    async def act() -> None:
        path = await plant_in(fleet, "PENDING")
        if action == "delete":
            assert (await fleet.call("DELETE", path))[0] == 200
        else:
            move = {"organizationId": fleet.stranger["x-org-id"]}
            assert (await fleet.call("PATCH", path, move, fleet.super_admin))[0] == 200

    async def jobs() -> list[tuple[Any, ...]]:
        return await fleet.sql("SELECT task_name, status::text, lock FROM procrastinate_jobs ORDER BY id")

    for _ in range(3):
        await act()
    assert await jobs() == [(job, "todo", job)]

    # A running job may have read its work before the next plant was deleted or moved.
    await fleet.sql("UPDATE procrastinate_jobs SET status = 'doing'")
    for _ in range(2):
        await act()
    assert await jobs() == [(job, "doing", job), (job, "todo", job)]


async def test_a_rotated_secret_and_the_one_before_verify_for_an_hour(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    path, package = await fleet.active_plant("PASSWORD")
    plant_id, first = package["plantId"], package["security"]["hmacSecret"]
    asked_at = datetime.now(UTC)

    _, rotated = await fleet.call("POST", f"{path}/rotate-secret")

    second = rotated["hmacSecret"]
    until = datetime.fromisoformat(rotated["previousValidUntil"])
    assert set(rotated) == {"hmacSecret", "previousValidUntil"}
    assert len(bytes.fromhex(second)) == 32
    assert second != first
    assert abs(until - asked_at - timedelta(hours=1)) < timedelta(seconds=10)
    assert (await fleet.call("GET", path))[1]["secretRotatedAt"] is not None
    assert await results(fleet, plant_id, first, second) == ["accepted", "accepted"]
    _, rotated = await fleet.call("POST", f"{path}/rotate-secret")
    third = rotated["hmacSecret"]
    assert await results(fleet, plant_id, first, second, third) == ["signature_invalid", "accepted", "accepted"]
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(minutes=61))
    assert await results(fleet, plant_id, second, third, ahead=3660) == ["signature_invalid", "accepted"]


async def results(fleet: Fleet, plant_id: str, *secrets: str, ahead: int = 0) -> list[str]:
    """What the ingest says of a message signed with each of the secrets."""
    state = fleet.service.state
    topic = f"v1/plants/{plant_id}/telemetry"
    found = []
    for secret in secrets:
        now_ms = int(datetime.now(UTC).timestamp() + ahead) * 1000
        body = sign_message(bytes.fromhex(secret), topic, uuid4().hex, now_ms, b"[]")
        pipeline = Pipeline(state.database, state.keyring, window_seconds=600)
        batch = await pipeline.prepare([Delivery(topic.replace("/", "."), body, now_ms)])
        [result] = batch.results
        found.append(result)
    return found


@pytest.mark.parametrize("action", ["provision", "rotate-secret", "renew-certificate"])
async def test_a_repetition_with_the_same_key_gets_the_first_response(fleet: Fleet, action: str) -> None:
    """If the first one was lost, another rotation or renewal would end the credentials that the plant still uses."""
    path = await plant_in(fleet, "PENDING" if action == "provision" else "ACTIVE")
    tried = fleet.admin | {"idempotency-key": "k-1"}
    credentials = (
        "SELECT p.certificate_serial_number, p.previous_certificate_serial_number, s.hmac_secret, s.previous_hmac_secret"
        " FROM plant p JOIN plant_secret s ON s.plant_id = p.id"
    )

    first = await fleet.call("POST", f"{path}/{action}", headers=tried)
    after_first = await fleet.sql(credentials)
    again = await fleet.call("POST", f"{path}/{action}", headers=tried)

    assert first[0] == 200
    assert again == first
    assert await fleet.sql(credentials) == after_first


async def test_a_secret_is_rotated_under_the_newest_key(fleet: Fleet) -> None:
    """Both secrets stand under one key version, so the old one is written anew with the new."""
    path, package = await fleet.active_plant("TOKEN")
    state = fleet.service.state
    old_ring = state.settings.secret("keys").get_secret_value()
    both = Keyring.parse(f"{old_ring},2:{'ab' * 32}")
    object.__setattr__(state, "keyring", both)

    _, rotated = await fleet.call("POST", f"{path}/rotate-secret")

    [(version, new, old, kept)] = await fleet.sql(
        "SELECT key_version, hmac_secret, previous_hmac_secret, package FROM plant_secret"
    )
    assert (version, kept) == (2, None)
    plant_id = package["plantId"]
    assert both.decrypt(new, 2, table="plant_secret", column="hmac_secret", row_id=plant_id).hex() == rotated["hmacSecret"]
    assert (
        both.decrypt(old, 2, table="plant_secret", column="previous_hmac_secret", row_id=plant_id).hex()
        == package["security"]["hmacSecret"]
    )
    assert (await fleet.call("GET", f"{path}/provision/download"))[0] == 400


async def test_a_secret_that_cannot_be_decrypted_is_replaced(fleet: Fleet) -> None:
    """Its key was lost, or the row is damaged: a new secret is all that brings the plant back."""
    path, package = await fleet.active_plant("TOKEN")
    await fleet.sql("UPDATE plant_secret SET key_version = 7")

    status, rotated = await fleet.call("POST", f"{path}/rotate-secret")

    assert status == 200
    assert datetime.fromisoformat(rotated["previousValidUntil"]) <= datetime.now(UTC)
    assert await fleet.sql("SELECT previous_hmac_secret FROM plant_secret") == [(None,)]
    first, second = package["security"]["hmacSecret"], rotated["hmacSecret"]
    assert await results(fleet, package["plantId"], first, second) == ["signature_invalid", "accepted"]


async def test_replaced_secrets_are_forgotten_after_their_hour(fleet: Fleet) -> None:
    path, _ = await fleet.active_plant("TOKEN")
    await fleet.call("POST", f"{path}/rotate-secret")
    database = fleet.service.state.database

    async with database.transaction() as db:
        assert await delete_previous_secrets(db) == 0
    await fleet.sql("UPDATE plant_secret SET previous_valid_until = now() - interval '1 second'")
    async with database.transaction() as db:
        assert await delete_previous_secrets(db) == 1
    assert await fleet.sql("SELECT previous_hmac_secret FROM plant_secret") == [(None,)]


async def test_a_renewed_certificate_replaces_the_old_one(fleet: Fleet) -> None:
    path, package = await fleet.active_plant()
    plant_id = package["plantId"]
    first = x509.load_pem_x509_certificate(package["security"]["clientCert"].encode())

    _, renewed = await fleet.call("POST", f"{path}/renew-certificate")

    assert set(renewed) == {"clientCert", "clientKey"}
    second = x509.load_pem_x509_certificate(renewed["clientCert"].encode())
    second.verify_directly_issued_by(x509.load_pem_x509_certificate(package["security"]["caCert"].encode()))
    plant = (await fleet.call("GET", path))[1]
    assert plant["certificateSerialNumber"] == f"{second.serial_number:x}"
    [(previous, seconds, until)] = await fleet.sql(
        "SELECT previous_certificate_serial_number,"
        " extract(epoch FROM previous_certificate_valid_until - now())::int, previous_certificate_valid_until FROM plant"
    )
    shown = datetime.fromisoformat(plant["previousCertificateValidUntil"])
    assert timedelta(0) <= until - shown < timedelta(milliseconds=1)
    assert previous == f"{first.serial_number:x}"
    assert 3590 < seconds <= 3600
    [*_, (names, delay)] = await fleet.sql(
        "SELECT payload->'names', extract(epoch FROM due_at - created_at)::int FROM outbox ORDER BY due_at LIMIT 1"
    )
    assert (names, delay) == ([f"SERIALNUMBER={previous},CN={plant_id}"], 3600)
    await fleet.call("POST", f"{path}/renew-certificate")
    [(names,)] = await fleet.sql("SELECT payload->'names' FROM outbox WHERE due_at < now() + interval '1 minute' LIMIT 1")
    assert names == [f"SERIALNUMBER={previous},CN={plant_id}"], "the certificate before the last is cut off at once"


async def test_a_package_with_a_replaced_certificate_is_not_downloaded(fleet: Fleet) -> None:
    """A plant that installs it would lose its connection within the hour."""
    path, _ = await fleet.active_plant()
    await fleet.call("POST", f"{path}/renew-certificate")
    status, answer = await fleet.call("GET", f"{path}/provision/download")
    assert (status, answer["code"]) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("method", ["TOKEN", "PASSWORD"])
async def test_only_mtls_plants_have_certificates_to_renew(fleet: Fleet, method: str) -> None:
    path, _ = await fleet.active_plant(method)

    assert (await fleet.call("POST", f"{path}/renew-certificate"))[1]["code"] == "BAD_REQUEST"


async def test_certificates_are_counted_by_their_state(fleet: Fleet) -> None:
    ids: list[Any] = []
    for name, days in (("fresh", 300), ("soon", 20), ("sooner", 10), ("over", -5)):
        path, package = await fleet.active_plant(serialNumber=name, name=name)
        ids.append(UUID(package["plantId"]))
        await fleet.sql(
            "UPDATE plant SET certificate_expires_at = now() + make_interval(days => %s) WHERE id = %s", days, ids[-1]
        )
    await fleet.call("POST", f"{path.rpartition('/')[0]}/{ids[1]}/suspend")
    revoked, _ = await fleet.active_plant(serialNumber="gone")
    await fleet.call("POST", f"{revoked}/revoke")
    await fleet.active_plant("TOKEN", serialNumber="token")
    await fleet.plant(serialNumber="pending")

    status, found = await fleet.call("GET", "/plants/certificate-stats", headers=fleet.viewer)

    assert status == 200
    assert {name: found[name] for name in ("active", "expired", "expiringSoon", "revoked")} == {
        "active": 3,
        "expired": 1,
        "expiringSoon": 2,
        "revoked": 1,
    }
    assert [plant["name"] for plant in found["atRiskPlants"]] == ["over", "sooner", "soon"]
    assert found["atRiskPlants"][2] == {
        "id": str(ids[1]),
        "name": "soon",
        "serialNumber": "soon",
        "authMethod": "MTLS",
        "lifecycleStatus": "SUSPENDED",
        "certificateExpiresAt": found["atRiskPlants"][2]["certificateExpiresAt"],
    }
    assert found["nextRenewalAt"] == found["atRiskPlants"][1]["certificateExpiresAt"]
    _, empty = await fleet.call("GET", "/plants/certificate-stats", headers=fleet.stranger)
    assert empty == {
        "active": 0,
        "expired": 0,
        "expiringSoon": 0,
        "revoked": 0,
        "nextRenewalAt": None,
        "atRiskPlants": [],
    }
