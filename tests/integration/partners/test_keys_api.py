"""API keys over REST: what making, reading and revoking them answers. These keys may not use the broker, so none is needed."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from gridfleet.api.partner import api_keys
from gridfleet.domains.organizations.models import Organization
from gridfleet.domains.partners import key_creation, store
from gridfleet.domains.partners.key_text import digest_of
from gridfleet.kernel.broker.probe import Probe
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.ids import new_id
from support.builders.interleaving import until_blocked
from support.clients.executed_statements import executed_statements
from support.clients.people import People, Person, refused
from support.servers.api_service import api_service

WANTED: dict[str, Any] = {"name": "Trader", "partnerId": "trader-1", "scopes": ["plants:read", "telemetry:read"]}


@pytest.fixture
async def people(database_url: str, home: Path) -> AsyncIterator[People]:
    async with api_service(database_url, home, rate_limits="off") as service:
        yield People(service)


@pytest.fixture
async def admin(people: People) -> Person:
    return await people.person("admin@example.com")


@pytest.fixture
async def org(people: People, admin: Person) -> Organization:
    return await people.organization(ORG_ADMIN=admin)


async def make(people: People, admin: Person, org: Organization, **changes: Any) -> Any:
    """A key's create response."""
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, **changes}, who=admin, org=org.id)
    assert answer.status_code == 201, answer.text
    return answer.json()


def name_missing_broker(people: People) -> None:
    """Name a broker where nothing listens, so that no key can be proved."""
    for name in ("broker_url", "broker_management_url"):
        secret = people.service.state.settings.home / "secrets" / name
        secret.parent.mkdir(exist_ok=True)
        secret.write_text("http://absent@127.0.0.1:9" if "management" in name else "amqp://absent@127.0.0.1:9")


async def by_key(people: People, created: Any, path: str, method: str = "GET", **more: Any) -> httpx.Response:
    """A call with nothing but the key."""
    headers = {"x-api-key": created["key"], **more.pop("headers", {})}
    return await people.call(method, path, headers=headers, **more)


async def test_an_admin_who_is_removed_meanwhile_gets_no_key(people: People, admin: Person, org: Organization) -> None:
    database = people.service.state.database
    async with database.transaction() as db:
        await db.execute("SELECT FROM organization WHERE id = %s FOR UPDATE", (org.id,))
        creating = asyncio.create_task(people.call("POST", "/partner/api-keys", WANTED, who=admin, org=org.id))
        await until_blocked(database)
        await people.execute("DELETE FROM membership WHERE user_id = %s", admin.id)
    refused(await creating, 403, "FORBIDDEN")
    assert await people.execute("SELECT FROM partner_key") == []


async def test_the_secrets_are_shown_once_and_stored_nowhere(people: People, admin: Person, org: Organization) -> None:
    answer = await people.call("POST", "/partner/api-keys", WANTED, who=admin, org=org.id)
    assert answer.headers["cache-control"] == "no-store"
    created = answer.json()
    assert set(created) == {"key", "signingKey", "apiKey"}
    assert created["signingKey"] is None, "nothing is to be signed"
    assert digest_of(created["key"]) is not None
    shown = created["apiKey"]
    assert created["key"].startswith(shown["keyPrefix"])
    assert len(shown["keyPrefix"]) == 16
    assert shown["vhost"] == f"partner-{shown['id']}"
    assert (shown["isActive"], shown["lastUsedAt"], shown["expiresAt"]) == (True, None, None)
    assert (shown["allowedIps"], shown["allowedPlantIds"]) == ([], None)
    assert shown["creator"]["email"] == admin.email
    [row] = await people.execute("SELECT t::text FROM partner_key t")
    assert created["key"] not in row[0]
    listed = (await people.call("GET", "/partner/api-keys", who=admin, org=org.id)).json()
    assert listed["data"] == [shown]
    assert (await people.call("GET", f"/partner/api-keys/{shown['id']}", who=admin, org=org.id)).json() == shown
    [event] = [event for event in await people.events() if event["event"] == "api_key.created"]
    assert (event["subjectId"], event["actorId"], event["organizationId"]) == (shown["id"], str(admin.id), str(org.id))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["plants:fly"]}, "scopes.0"),
        ({"scopes": None}, "scopes"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"partnerId": ""}, "partnerId"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"expiresAt": "tomorrow"}, "expiresAt"),
        ({"allowedIps": ["10.0.0.0/33"]}, "allowedIps.0"),
        ({"allowedIps": ["10.0.0.1"]}, "allowedIps.0"),
        ({"allowedIps": ["10.0.0.0/8", "10.0.0.1/8"]}, "allowedIps.1"),
        ({"allowedIps": ["anywhere"]}, "allowedIps.0"),
        ({"allowedPlantIds": ["0192f0c1-2c1a-7c3e-9b0a-3d1f5a2b4c6d"]}, "allowedPlantIds.0"),
        ({"allowedPlantIds": []}, "allowedPlantIds"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_cannot_be_is_refused(
    people: People, admin: Person, org: Organization, change: dict[str, Any], complaint: str
) -> None:
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, **change}, who=admin, org=org.id)
    assert refused(answer, 400, "VALIDATION_ERROR")[0].startswith(f"{complaint}:")
    assert await people.execute("SELECT id FROM partner_key") == []


async def test_long_lists_are_looked_at_within_bounds(people: People, admin: Person, org: Organization) -> None:
    """Plants are looked up on one of the few connections that the authorisation requests need, and networks are compared with
    the address of every call."""
    strangers = [str(new_id()) for _ in range(2_000)]
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, "allowedPlantIds": strangers}, who=admin, org=org.id)
    details = refused(answer, 400, "VALIDATION_ERROR")
    assert details[0] == "allowedPlantIds.0: is no plant of this organisation"
    assert len(details) == 1_000
    strangers.append(str(new_id()))
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, "allowedPlantIds": strangers}, who=admin, org=org.id)
    assert refused(answer, 400, "VALIDATION_ERROR") == ["allowedPlantIds: must have at most 2000 plants"]
    networks = [f"10.0.{number >> 8}.{number & 255}/32" for number in range(1_001)]
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, "allowedIps": networks}, who=admin, org=org.id)
    assert refused(answer, 400, "VALIDATION_ERROR") == ["allowedIps: must have at most 1000 networks"]
    created = await make(people, admin, org, allowedIps=[*networks[:999], "127.0.0.0/8"])
    assert (await by_key(people, created, "/plants")).status_code == 200


async def test_a_page_of_keys_with_long_lists_is_cheap(people: People, admin: Person, org: Organization) -> None:
    """A page has 200,000 plants and 100,000 networks. While it is computed, no other request of the process continues."""
    await make(people, admin, org)
    await people.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_plant_ids,"
        " allowed_ips, vhost, created_by, activated_at)"
        " SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea), scopes,"
        " (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 2000) WHERE n > 0),"
        " (SELECT array_agg(('10.0.' || m / 256 || '.' || mod(m, 256))::cidr) FROM generate_series(1, 1000) AS m),"
        " 'partner-' || n, created_by, now() FROM partner_key, generate_series(1, 100) AS n"
    )
    uncompressed = {"accept-encoding": "identity"}
    started = time.process_time()
    answer = await people.call("GET", "/partner/api-keys?limit=100", who=admin, org=org.id, headers=uncompressed)
    page = time.process_time() - started
    keys = answer.json()["data"]
    started = time.process_time()
    plants = [[UUID(text) for text in key["allowedPlantIds"]] for key in keys]
    objects = time.process_time() - started
    assert [(len(found), len(key["allowedIps"])) for found, key in zip(plants, keys, strict=True)] == [(2_000, 1_000)] * 100
    assert keys[0]["allowedIps"][:2] == ["10.0.0.1/32", "10.0.0.2/32"]
    assert page < objects, f"{page} s for the page, {objects} s for objects of its plants"


async def test_keys_that_may_use_the_broker_are_bounded(people: People, admin: Person, org: Organization) -> None:
    """Each has a vhost, which takes memory, files and disk of the broker that all organisations share."""
    name_missing_broker(people)
    await make(people, admin, org)
    await people.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_ips, vhost,"
        " amqp_slug, created_by, activated_at)"
        " SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea), '{vcp:connect}',"
        " allowed_ips, 'partner-' || n, %s, created_by, now() FROM partner_key, generate_series(1, 100) AS n",
        org.slug,
    )
    body = {**WANTED, "scopes": ["plants:read", "vcp:connect"]}
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    assert refused(answer, 400, "VALIDATION_ERROR") == [
        "scopes: must not contain a scope for the broker: the organisation has 100 such keys; revoke one first"
    ]
    await make(people, admin, org)
    await people.execute("UPDATE partner_key SET revoked_at = now(), amqp_slug = NULL WHERE vhost = 'partner-7'")
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    refused(answer, 500, "INTERNAL_SERVER_ERROR")


@pytest.mark.parametrize(("others", "mebibytes"), [(3, 256), (4, 128), (99, 8)])
async def test_a_new_key_shares_the_disk_of_its_organisations_keys(
    people: People, admin: Person, org: Organization, monkeypatch: pytest.MonkeyPatch, others: int, mebibytes: int
) -> None:
    sizes: list[int] = []

    async def note_size(*_: object, queue_bytes: int, **__: object) -> None:
        sizes.append(queue_bytes)

    async def succeed(*_: object) -> Probe:
        return Probe(1, None)

    name_missing_broker(people)
    monkeypatch.setattr(api_keys, "ensure_partner_vhost", note_size)
    monkeypatch.setattr(api_keys, "probe", succeed)
    await make(people, admin, org)
    await people.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_ips, vhost,"
        " amqp_slug, created_by, activated_at)"
        " SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea), '{vcp:connect}',"
        " allowed_ips, 'partner-' || n, %s, created_by, now() FROM partner_key, generate_series(1, %s) AS n",
        org.slug,
        others,
    )
    await make(people, admin, org, scopes=["vcp:connect"])
    assert sizes == [mebibytes * 2**20]


async def test_creations_of_keys_for_the_broker_are_bounded(people: People, admin: Person, org: Organization) -> None:
    """What the vhost and its quorum queues leave in the broker's memory stays there after the key was revoked."""
    name_missing_broker(people)
    await make(people, admin, org)
    await people.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_ips, vhost,"
        " created_by, created_at, activated_at, revoked_at)"
        " SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea), '{vcp:connect}',"
        " allowed_ips, 'partner-' || n, created_by, now() - interval '23 hours', now(), now()"
        " FROM partner_key, generate_series(1, 200) AS n"
    )
    body = {**WANTED, "scopes": ["plants:read", "trading:connect"]}
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 3_000 < int(answer.headers["retry-after"]) <= 3_600
    await make(people, admin, org)
    await people.execute("UPDATE partner_key SET created_at = now() - interval '25 hours' WHERE vhost = 'partner-7'")
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    refused(answer, 500, "INTERNAL_SERVER_ERROR")


async def test_keys_of_a_day_are_bounded(
    people: People, admin: Person, org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those for REST only too: each is a row for ever."""
    monkeypatch.setattr(key_creation, "MOST_A_DAY", 3)
    for _ in range(3):
        await make(people, admin, org)
    await people.execute("UPDATE partner_key SET created_at = now() - interval '23 hours'")
    answer = await people.call("POST", "/partner/api-keys", WANTED, who=admin, org=org.id)
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 3_000 < int(answer.headers["retry-after"]) <= 3_600
    await people.execute("UPDATE partner_key SET created_at = now() - interval '25 hours'")
    for _ in range(3):
        await make(people, admin, org)
    # Keys of a clock that was a year ahead counted for a year.
    await people.execute("UPDATE partner_key SET created_at = now() + interval '1 year'")
    await make(people, admin, org)


async def test_a_refused_creation_takes_no_reserved_connection(
    people: People, admin: Person, org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logins of all plants need those."""
    monkeypatch.setattr(key_creation, "MOST_A_DAY", 1)
    await make(people, admin, org)
    past = {**WANTED, "expiresAt": "2020-01-01T00:00:00Z"}
    async with contextlib.AsyncExitStack() as logins:
        for _ in range(4):
            await logins.enter_async_context(people.service.state.reserved.transaction())
        async with asyncio.timeout(5):
            refused(await people.call("POST", "/partner/api-keys", WANTED, who=admin, org=org.id), 429, "TOO_MANY_REQUESTS")
            refused(await people.call("POST", "/partner/api-keys", past, who=admin, org=org.id), 400, "VALIDATION_ERROR")


async def test_the_newest_keys_for_the_broker_are_found_without_reading_the_others(
    people: People, admin: Person, org: Organization
) -> None:
    await make(people, admin, org)
    await people.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_ips, vhost,"
        " created_by, created_at, activated_at)"
        " SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea), scopes,"
        " allowed_ips, 'partner-' || n, created_by, now() - n * interval '1 s', now()"
        " FROM partner_key, generate_series(1, 20000) AS n"
    )
    caller = UserCaller(admin.id, new_id(), admin.email, "Admin", False, None)
    async with people.service.state.database.autocommit() as db:
        await db.execute("ANALYZE partner_key")
    async with people.service.state.database.transaction() as db:
        with executed_statements() as statements:
            assert await store.nth_newest_at_broker(db, OrgScope(org.id, OrgRole.ORG_ADMIN, caller), 200) is None
        cursor = await db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statements[0]}", (org.id, 199))
        [([explained],)] = await cursor.fetchall()
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 50


async def test_failed_creations_of_keys_for_the_broker_are_bounded(
    people: People, admin: Person, org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation with two ORG_ADMINs can let any of them fail after the vhost was created."""

    async def demote(*_: object, **__: object) -> None:
        await people.execute("UPDATE membership SET role = 'OPERATOR' WHERE user_id = %s", admin.id)

    async def succeed(*_: object) -> Probe:
        return Probe(1, None)

    name_missing_broker(people)
    monkeypatch.setattr(api_keys, "ensure_partner_vhost", demote)
    monkeypatch.setattr(api_keys, "probe", succeed)
    body = {**WANTED, "scopes": ["plants:read", "vcp:connect"]}
    refused(await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id), 403, "FORBIDDEN")
    await people.execute("UPDATE membership SET role = 'ORG_ADMIN' WHERE user_id = %s", admin.id)
    assert await people.execute("SELECT FROM partner_key") == []
    [event] = [event for event in await people.events() if event["event"] == "api_key.creation_failed"]
    assert (event["actorId"], event["organizationId"]) == (str(admin.id), str(org.id))
    await people.execute(
        "INSERT INTO audit_event (id, event, organization_id, actor_type, details, created_at)"
        " SELECT gen_random_uuid(), event, organization_id, actor_type, '{}', now() - interval '23 hours'"
        " FROM audit_event, generate_series(1, 199) WHERE event = 'api_key.creation_failed'"
    )
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 3_000 < int(answer.headers["retry-after"]) <= 3_600
    await make(people, admin, org)


async def test_revoking_is_for_ever_and_at_once(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org)
    path = f"/partner/api-keys/{created['apiKey']['id']}"
    assert (await by_key(people, created, "/plants")).status_code == 200
    for _ in range(2):
        assert (await people.call("DELETE", path, who=admin, org=org.id)).status_code == 200
        refused(await by_key(people, created, "/plants"), 401, "UNAUTHORIZED")
    key = (await people.call("GET", path, who=admin, org=org.id)).json()
    assert (key["isActive"], key["revokedAt"] is None) == (False, False)
    assert [event["event"] for event in await people.events()].count("api_key.revoked") == 1
    refused(await people.call("DELETE", "/partner/api-keys/5", who=admin, org=org.id), 400, "INVALID_UUID")


async def test_a_key_ends_with_its_time(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org, expiresAt=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert (await by_key(people, created, "/plants")).status_code == 200
    await people.execute("UPDATE partner_key SET expires_at = now() - interval '1 second', last_used_at = NULL")
    refused(await by_key(people, created, "/plants"), 401, "UNAUTHORIZED")
    [key] = (await people.call("GET", "/partner/api-keys", who=admin, org=org.id)).json()["data"]
    assert (key["isActive"], key["lastUsedAt"], key["revokedAt"]) == (False, None, None)


async def test_a_key_acts_in_its_own_organisation_alone(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org)
    other = await people.organization(ORG_ADMIN=admin)
    assert (await by_key(people, created, "/plants", headers={"x-org-id": str(org.id)})).status_code == 200
    for named in (str(other.id), "5", ""):
        refused(await by_key(people, created, "/plants", headers={"x-org-id": named}), 403, "FORBIDDEN")


async def test_scopes_open_what_they_name_and_nothing_else(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org, scopes=["vcp:connect", "plants:read"][1:])
    assert (await by_key(people, created, "/device-templates")).status_code == 200
    refused(await by_key(people, created, "/alerts"), 403, "FORBIDDEN")
    refused(await by_key(people, created, "/partner/api-keys"), 403, "FORBIDDEN")
    refused(await by_key(people, created, "/users"), 403, "SUPER_ADMIN_REQUIRED")
    refused(await by_key(people, created, "/auth/me"), 401, "UNAUTHORIZED")
    body = {"name": "P", "serialNumber": "S", "type": "GATEWAY"}
    refused(await by_key(people, created, "/plants", "POST", json=body), 403, "FORBIDDEN")


async def test_a_session_counts_before_a_key(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org)
    stranger = await people.person()
    headers = {"x-api-key": created["key"], "x-org-id": str(org.id)}
    refused(await people.call("GET", "/plants", headers=headers, who=stranger), 403, "FORBIDDEN")
    spoilt = {**headers, "authorization": "Bearer not.a.token"}
    assert (await people.call("GET", "/plants", headers=spoilt)).status_code == 200
    refused(await people.call("GET", "/plants", headers={**spoilt, "x-api-key": "gf_live_x"}), 401, "UNAUTHORIZED")


async def test_addresses_that_are_not_allowed_are_strangers(people: People, admin: Person, org: Organization) -> None:
    near = await make(people, admin, org, allowedIps=["127.0.0.0/8", "::1/128"])
    far = await make(people, admin, org, allowedIps=["192.0.2.0/24"])
    assert (await by_key(people, near, "/plants")).status_code == 200
    refused(await by_key(people, far, "/plants"), 401, "UNAUTHORIZED")
    used = {
        key["id"]: key["lastUsedAt"]
        for key in (await people.call("GET", "/partner/api-keys", who=admin, org=org.id)).json()["data"]
    }
    assert used[near["apiKey"]["id"]] is not None
    assert used[far["apiKey"]["id"]] is None


async def test_what_is_no_key_is_not_looked_up(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org)
    swapped = created["key"][:-1] + ("0" if created["key"][-1] != "0" else "1")
    for text in (swapped, created["key"].lower(), created["key"] + "0", "gf_live_", "", "é" * 46):
        headers = {"x-api-key": text.encode("latin-1").decode("latin-1")}
        answer = await people.call("GET", "/plants", headers={name: value.encode("latin-1") for name, value in headers.items()})
        refused(answer, 401, "UNAUTHORIZED")


async def test_a_key_that_broker_scopes_ask_for_needs_the_broker(people: People, admin: Person, org: Organization) -> None:
    """Nothing remains of a key that could not be proved."""
    name_missing_broker(people)
    body = {**WANTED, "scopes": ["vcp:connect"]}
    answer = await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id)
    refused(answer, 500, "INTERNAL_SERVER_ERROR")
    assert answer.json()["details"] == ["broker: ConnectError"]
    assert await people.execute("SELECT id FROM partner_key") == []
    events = [event["event"] for event in await people.events() if event["event"].startswith("api_key")]
    assert events == ["api_key.creation_failed"]


async def test_a_key_that_a_slow_broker_does_not_prove_in_time_is_not_created(
    people: People, admin: Person, org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_missing_broker(people)
    monkeypatch.setattr("gridfleet.api.partner.api_keys.PROOF_SECONDS", 0.0)
    answer = await people.call("POST", "/partner/api-keys", {**WANTED, "scopes": ["vcp:connect"]}, who=admin, org=org.id)
    refused(answer, 500, "INTERNAL_SERVER_ERROR")
    assert answer.json()["details"] == ["broker: TimeoutError"]
    assert await people.execute("SELECT id FROM partner_key") == []


async def test_sending_a_creation_again_gives_the_same_key(people: People, admin: Person, org: Organization) -> None:
    headers = {"idempotency-key": "once"}
    first, again = [
        await people.call("POST", "/partner/api-keys", WANTED, who=admin, org=org.id, headers=headers) for _ in range(2)
    ]
    assert first.json() == again.json()
    assert again.headers["cache-control"] == "no-store"


async def test_a_key_that_cannot_use_the_broker_fails_its_trial(people: People, admin: Person, org: Organization) -> None:
    created = await make(people, admin, org)
    path = f"/partner/api-keys/{created['apiKey']['id']}"
    for key in (created["key"], "gf_live_wrong"):
        trial = (await people.call("POST", f"{path}/test-connection", {"key": key}, who=admin, org=org.id)).json()
        assert trial["ok"] is False
        assert trial["error"]
    for _ in range(2):
        assert (await people.call("POST", f"{path}/bundle-acknowledged", who=admin, org=org.id)).status_code == 200
    events = [event["event"] for event in await people.events()]
    assert (events.count("api_key.test_connection"), events.count("api_key.bundle_acknowledged")) == (2, 1)


async def test_an_organisation_lives_as_long_as_its_keys(people: People, admin: Person, org: Organization) -> None:
    chief = await people.person(super_admin=True)
    created = await make(people, admin, org)
    await people.execute("DELETE FROM membership")
    refused(await people.call("DELETE", f"/organizations/{org.id}", who=chief), 409, "CONFLICT")
    path = f"/partner/api-keys/{created['apiKey']['id']}"
    assert (await people.call("DELETE", path, who=chief, org=org.id)).status_code == 200
    assert (await people.call("DELETE", f"/organizations/{org.id}", who=chief)).status_code in (200, 204)


async def test_a_slug_stays_while_a_key_logs_in_with_it(people: People, admin: Person, org: Organization) -> None:
    chief = await people.person(super_admin=True)
    await make(people, admin, org)
    await people.execute("UPDATE partner_key SET amqp_slug = %s", org.slug)
    refused(await people.call("PATCH", f"/organizations/{org.id}", {"slug": "another"}, who=chief), 409, "CONFLICT")
    await people.execute("UPDATE partner_key SET amqp_slug = NULL")
    answer = await people.call("PATCH", f"/organizations/{org.id}", {"slug": "another"}, who=chief)
    assert answer.status_code == 200
