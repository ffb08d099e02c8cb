"""The trading configuration over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.trading.configuration import access_of
from gridfleet.domains.trading.store import enabled_configs
from support.builders.api_keys import key_headers
from support.clients.plants_over_http import Fleet, fleet_over_http
from support.servers.esm_stand_in import CLIENT_ID, SECRET, StandIn

CONFIG = "/trading/config"
COMPLETE = {"esmApiUrl": "https://esm.example.com/api/", "esmClientId": "us", "esmClientSecret": " s3cret "}


@pytest.fixture
async def strict(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    """A service that goes to public addresses alone."""
    async with fleet_over_http(database_url, home) as running:
        yield running


async def slug_of(fleet: Fleet) -> str:
    [(slug,)] = await fleet.sql("SELECT slug FROM organization WHERE id = %s", fleet.admin["x-org-id"])
    return str(slug)


async def queues(fleet: Fleet) -> list[tuple[Any, ...]]:
    """Prefix, and whether the organisation's queues stand."""
    return await fleet.sql("SELECT prefix, enabled FROM partner_queues WHERE organization_id = %s", fleet.admin["x-org-id"])


async def test_it_exists_from_the_first_look(strict: Fleet) -> None:
    status, first = await strict.call("GET", CONFIG, headers=strict.viewer)
    assert status == 200
    assert first == {
        "id": first["id"],
        "organizationId": strict.admin["x-org-id"],
        "esmApiUrl": None,
        "esmClientId": None,
        "hasEsmCredentials": False,
        "queuePrefix": await slug_of(strict),
        "status": "DISABLED",
        "lastSyncAt": None,
        "lastSyncError": None,
        "createdAt": first["createdAt"],
        "updatedAt": first["updatedAt"],
    }
    assert await strict.call("GET", CONFIG) == (200, first)


async def test_an_error_names_no_plant_to_a_key_that_is_limited_to_others(strict: Fleet) -> None:
    plant = UUID((await strict.plant())["id"])
    assert (await strict.call("POST", CONFIG, COMPLETE))[0] == 200
    shown = []
    for error in (None, "P9: is not known to the ESM"):
        await strict.sql("UPDATE trading_config SET last_sync_error = %s", error)
        for plants in (None, [plant]):
            organization_id = UUID(strict.admin["x-org-id"])
            _, key = await key_headers(strict.service.state.database, organization_id, ["trading:read"], plants)
            shown.append((await strict.call("GET", CONFIG, headers=key))[1]["lastSyncError"])
    assert shown == [None, None, "P9: is not known to the ESM", "The last sync had errors."]


async def test_a_key_that_is_limited_to_some_plants_changes_nothing(strict: Fleet) -> None:
    """Address, prefix and state are those of all plants and keys: disabling trading deletes the events of other partners."""
    plant = UUID((await strict.plant())["id"])
    await strict.call("POST", CONFIG, COMPLETE)
    before = await strict.call("POST", f"{CONFIG}/enable")
    outcomes = []
    for plants in ([plant], None):
        organization_id = UUID(strict.admin["x-org-id"])
        _, key = await key_headers(strict.service.state.database, organization_id, ["trading:read", "trading:write"], plants)
        moved = {"esmApiUrl": "https://esm.example.org", "esmClientSecret": "theirs"}
        calls = ((CONFIG, moved), (f"{CONFIG}/disable", None), (f"{CONFIG}/enable", None))
        outcomes.append([(await strict.call("POST", path, body, headers=key))[0] for path, body in calls])
        if plants:
            assert await strict.call("GET", CONFIG, headers=key) == before
    assert outcomes == [[403, 403, 403], [200, 200, 200]]


async def test_settings_are_kept_and_the_secret_is_not_shown(strict: Fleet) -> None:
    status, saved = await strict.call("POST", CONFIG, COMPLETE)
    assert status == 200
    assert (saved["esmApiUrl"], saved["esmClientId"], saved["hasEsmCredentials"]) == ("https://esm.example.com/api", "us", True)
    status, changed = await strict.call("POST", CONFIG, {"queuePrefix": "our-queues"})
    assert (changed["esmClientId"], changed["queuePrefix"]) == ("us", "our-queues")
    assert "s3cret" not in str(changed)
    assert await strict.call("POST", CONFIG, {}) == (200, changed)
    [(encrypted, version)] = await strict.sql("SELECT esm_client_secret, key_version FROM trading_config")
    assert b"s3cret" not in encrypted
    keyring = strict.service.state.keyring
    place = {"table": "trading_config", "column": "esm_client_secret"}
    assert keyring.decrypt(encrypted, version, row_id=saved["id"], **place) == b" s3cret ", "as typed"
    events = (await strict.call("GET", "/audit-events?event=trading.configured"))[1]["data"]
    assert [event["details"]["changed"] for event in events] == [
        ["queue_prefix"],
        ["esm_api_url", "esm_client_id", "esm_client_secret"],
    ]


async def test_a_kept_secret_goes_to_no_other_server(strict: Fleet) -> None:
    """No caller sees the secret, so none may have it sent to another server: no ORG_ADMIN, no partner with a key."""
    body = {"name": "K", "partnerId": "p", "scopes": ["trading:write", "trading:read"]}
    key = {"x-api-key": (await strict.call("POST", "/partner/api-keys", body))[1]["key"]}
    await strict.call("POST", CONFIG, COMPLETE)
    for other in ("https://thief.example.com/api", "http://esm.example.com/api", "https://esm.example.com:8443/api"):
        for caller in (strict.admin, key):
            status, error = await strict.call("POST", CONFIG, {"esmApiUrl": other, "esmClientId": "us"}, caller)
            assert (status, error["code"]) == (400, "VALIDATION_ERROR"), other
            assert error["details"] == ["esmClientSecret: must be given again with the address of another server"]
    assert (await strict.call("GET", CONFIG))[1]["esmApiUrl"] == "https://esm.example.com/api"
    for same in ("https://esm.example.com/v2", "https://ESM.example.com:443/v3"):
        assert (await strict.call("POST", CONFIG, {"esmApiUrl": same}, key))[0] == 200
    moved = {"esmApiUrl": "https://new.example.com", "esmClientSecret": "another"}
    assert (await strict.call("POST", CONFIG, moved))[1]["esmApiUrl"] == "https://new.example.com"


async def test_an_organisation_sets_ten_addresses_a_minute(strict: Fleet) -> None:
    """Each is looked up, and a name whose server does not answer is looked up for a long time."""
    for number in range(10):
        assert (await strict.call("POST", CONFIG, {"esmApiUrl": f"https://8.8.8.8/{number}"}))[0] == 200
    status, error = await strict.call("POST", CONFIG, {"esmApiUrl": "https://8.8.8.8/10"})
    assert (status, error["code"]) == (429, "TOO_MANY_REQUESTS")
    assert (await strict.call("POST", CONFIG, {"esmApiUrl": "https://8.8.8.8"}, strict.stranger))[0] == 200
    assert (await strict.call("POST", CONFIG, {"queuePrefix": "our-queues"}))[0] == 200


async def test_half_of_the_credentials_is_none(strict: Fleet) -> None:
    assert (await strict.call("POST", CONFIG, {"esmClientId": "us"}))[1]["hasEsmCredentials"] is False
    headers = strict.stranger
    assert (await strict.call("POST", CONFIG, {"esmClientSecret": "s3cret"}, headers))[1]["hasEsmCredentials"] is False
    assert (await strict.call("POST", CONFIG, {"esmClientId": "us"}, headers))[1]["hasEsmCredentials"] is True


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"queuePrefix": "vcp"}, ["queuePrefix: must not be vcp, which is reserved"]),
    ({"queuePrefix": "amq"}, ["queuePrefix: must not be amq, which is reserved"]),
    ({"queuePrefix": "a"}, ["queuePrefix: must have 2 to 50 characters"]),
    (
        {"queuePrefix": "-a-"},
        ["queuePrefix: must be lowercase letters, digits and hyphens, beginning and ending with a letter or digit"],
    ),
    ({"esmApiUrl": None, "esmClientId": ""}, ["esmApiUrl: must not be null", "esmClientId: must have 1 to 255 characters"]),
    ({"esmSecret": "x"}, ["esmSecret: is not a known field (did you mean esmApiUrl?)"]),
    ({"esmApiUrl": "http://127.0.0.1:8080"}, ["esmApiUrl: must resolve to public addresses only"]),
    ({"esmApiUrl": "http://localhost"}, ["esmApiUrl: must resolve to public addresses only; this is a local name"]),
    ({"esmApiUrl": "https://esm.localhost"}, ["esmApiUrl: must resolve to public addresses only; this is a local name"]),
    ({"esmApiUrl": "https://esm.internal"}, ["esmApiUrl: must resolve to public addresses only; this is a local name"]),
    ({"esmApiUrl": "http://[::ffff:a00:1]"}, ["esmApiUrl: must resolve to public addresses only"]),
    ({"esmApiUrl": "http://169.254.169.254/latest"}, ["esmApiUrl: must resolve to public addresses only"]),
    (
        {"esmApiUrl": "http://0x7f.1"},
        ["esmApiUrl: must name its host by a name, or by an IP address in its usual spelling"],
    ),
    ({"esmApiUrl": "http://localhost:8080/api/v1/svc-esm/../admin"}, ["esmApiUrl: must have a path without dot segments"]),
]


async def test_what_is_refused(strict: Fleet) -> None:
    for body, details in REFUSED:
        status, answer = await strict.call("POST", CONFIG, body)
        assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
        found = [detail.split(" (did")[0] for detail in answer["details"]]
        assert found == [detail.split(" (did")[0] for detail in details]
    assert (await strict.call("GET", CONFIG))[1]["esmApiUrl"] is None


async def test_the_sandbox_of_the_service_is_welcome(strict: Fleet) -> None:
    url = "http://localhost:8080/api/v1/svc-esm"
    for spelled in (url, f"{url}/"):
        assert (await strict.call("POST", CONFIG, {"esmApiUrl": spelled}))[1]["esmApiUrl"] == url
    assert (await strict.call("POST", CONFIG, {"esmApiUrl": f"{url}/admin"}))[0] == 400


async def test_trading_is_switched_on_and_off(strict: Fleet) -> None:
    status, answer = await strict.call("POST", f"{CONFIG}/enable")
    assert (status, answer["code"]) == (400, "TRADING_CONFIG_INCOMPLETE")
    assert answer["details"] == ["esmApiUrl: is not set", "esmClientId: is not set", "esmClientSecret: is not set"]
    await strict.call("POST", CONFIG, {"esmApiUrl": "https://esm.example.com", "esmClientId": "us"})
    assert (await strict.call("POST", f"{CONFIG}/enable"))[1]["details"] == ["esmClientSecret: is not set"]
    assert await queues(strict) == []

    await strict.call("POST", CONFIG, COMPLETE)
    status, enabled = await strict.call("POST", f"{CONFIG}/enable")
    assert (status, enabled["status"]) == (200, "ENABLED")
    assert await queues(strict) == [(enabled["queuePrefix"], True)]
    status, answer = await strict.call("POST", CONFIG, {"queuePrefix": "other"})
    assert (status, answer["details"]) == (400, ["queuePrefix: cannot be changed while trading is enabled"])
    assert (await strict.call("POST", CONFIG, {"queuePrefix": enabled["queuePrefix"]}))[0] == 200
    status, disabled = await strict.call("POST", f"{CONFIG}/disable")
    assert (status, disabled["status"]) == (200, "DISABLED")
    assert await queues(strict) == [(enabled["queuePrefix"], False)]
    await strict.call("POST", CONFIG, {"queuePrefix": "other"})
    assert await queues(strict) == [("other", False)]
    events = (await strict.call("GET", "/audit-events"))[1]["data"]
    assert [event["event"] for event in events if event["event"].startswith("trading.") and "conf" not in event["event"]] == [
        "trading.disabled",
        "trading.enabled",
    ]


async def test_enabling_trading_is_bounded(strict: Fleet) -> None:
    """Each time makes queues at the broker, and what a quorum queue leaves in its memory stays there."""
    await strict.call("POST", CONFIG, COMPLETE)
    assert (await strict.call("POST", f"{CONFIG}/enable"))[0] == 200
    await strict.sql(
        "INSERT INTO audit_event SELECT (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*"
        " FROM audit_event e, generate_series(2, 2000) WHERE event = 'trading.enabled' AND organization_id = %s",
        strict.admin["x-org-id"],
    )
    assert (await strict.call("POST", f"{CONFIG}/enable"))[0] == 200  # repairs what is there
    assert (await strict.call("POST", f"{CONFIG}/disable"))[0] == 200
    status, answer = await strict.call("POST", f"{CONFIG}/enable")
    assert (status, answer["code"]) == (429, "TOO_MANY_REQUESTS")
    assert (await strict.call("GET", CONFIG))[1]["status"] == "DISABLED"


async def test_a_slug_that_is_reserved_cannot_name_queues(strict: Fleet) -> None:
    await strict.sql("UPDATE organization SET slug = 'vcp' WHERE id = %s", strict.admin["x-org-id"])
    await strict.call("POST", CONFIG, COMPLETE)
    status, answer = await strict.call("POST", f"{CONFIG}/enable")
    assert (status, answer["code"], len(answer["details"])) == (400, "TRADING_CONFIG_INCOMPLETE", 1)
    await strict.call("POST", CONFIG, {"queuePrefix": "our"})
    assert (await strict.call("POST", f"{CONFIG}/enable"))[0] == 200


async def test_connection_details(strict: Fleet) -> None:
    slug = await slug_of(strict)
    await strict.call("POST", CONFIG, {"queuePrefix": "our"})
    status, details = await strict.call("GET", "/trading/connection-details", headers=strict.viewer)
    assert status == 200
    assert (details["host"], details["port"], details["tls"]) == ("localhost", strict.service.state.settings.amqps_port, True)
    assert details["addresses"] == [{"host": details["host"], "port": details["port"]}]
    assert (details["vhost"], details["exchange"], details["queuePrefix"]) == ("partner-{keyId}", "vcp", "our")
    outbound = [queue for queue in details["queues"] if queue["direction"] == "outbound"]
    assert [(queue["name"], queue["routingKey"]) for queue in outbound] == [
        (f"vcp.{slug}.event.{event}", f"{slug}.event.{event}") for event in ("telemetry", "status", "command-ack", "alert")
    ]
    inbound = [queue for queue in details["queues"] if queue["direction"] == "inbound"]
    assert {queue["name"] for queue in inbound} == {"our.inbound"}
    assert [queue["routingKey"] for queue in inbound] == [
        f"{slug}.{family}" for family in ("command.site-setpoint", "command.device.#", "command.mode", "schedule.*", "config.*")
    ]


async def test_connection_details_name_the_vhost_of_the_key_that_asks(strict: Fleet) -> None:
    organization_id = UUID(strict.admin["x-org-id"])
    scopes = ["trading:read", "vcp:connect"]
    keys = [await key_headers(strict.service.state.database, organization_id, scopes) for _ in range(2)]
    await strict.sql("UPDATE partner_key SET vhost = 'partner-' || id, amqp_slug = %s", await slug_of(strict))
    shown = [await strict.call("GET", "/trading/connection-details", headers=key) for _, key in keys]
    assert [details["vhost"] for _, details in shown] == [f"partner-{key_id}" for key_id, _ in keys]
    assert (await strict.call("GET", "/trading/connection-details"))[1]["vhost"] == f"partner-{keys[1][0]}", "the newest"


async def test_connection_details_list_the_addresses_of_the_broker_in_order(database_url: str, home: Path) -> None:
    hosts = {"mqtt_host": "mq1.example.org", "mqtt_further_hosts": "mq2.example.org,mq3.example.org", "amqps_port": 5672}
    async with fleet_over_http(database_url, home, **hosts) as several:
        _, details = await several.call("GET", "/trading/connection-details")
    assert (details["host"], details["port"]) == ("mq1.example.org", 5672)
    assert details["addresses"] == [{"host": f"mq{number}.example.org", "port": 5672} for number in (1, 2, 3)]


async def test_an_organization_that_trades_stays_until_trading_is_disabled(strict: Fleet) -> None:
    async def organization() -> tuple[str, dict[str, str]]:
        slug = f"o-{len(await strict.sql('SELECT 1 FROM organization'))}"
        made = (await strict.call("POST", "/organizations", {"name": "New", "slug": slug}, strict.super_admin))[1]
        return f"/organizations/{made['id']}", {**strict.super_admin, "x-org-id": made["id"]}

    path, in_it = await organization()
    await strict.call("GET", CONFIG, headers=in_it)
    assert (await strict.call("DELETE", path, headers=strict.super_admin))[0] == 200, "it was only read"
    path, in_it = await organization()
    assert (await strict.call("POST", CONFIG, {}, in_it))[0] == 200, "nothing is changed"
    await strict.call("POST", CONFIG, COMPLETE, in_it)
    assert (await strict.call("POST", f"{CONFIG}/enable", headers=in_it))[0] == 200
    status, answer = await strict.call("DELETE", path, headers=strict.super_admin)
    assert (status, answer["code"]) == (409, "CONFLICT")
    assert (await strict.call("POST", f"{CONFIG}/disable", headers=in_it))[0] == 200
    assert (await strict.call("DELETE", path, headers=strict.super_admin))[0] == 200
    path, in_it = await organization()
    await strict.call("POST", f"/svc-esm/admin/enable?orgId={in_it['x-org-id']}", headers=strict.super_admin)
    assert (await strict.call("DELETE", path, headers=strict.super_admin))[0] == 200, "a sandbox goes with it"


async def test_what_the_periodic_sync_reads(fleet: Fleet, stand_in: StandIn) -> None:
    settings = {"esmApiUrl": stand_in.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
    await fleet.call("POST", CONFIG, settings)
    state = fleet.service.state
    async with state.database.transaction() as db:
        assert await enabled_configs(db) == []
    await fleet.call("POST", f"{CONFIG}/enable")
    async with state.database.transaction() as db:
        [row] = await enabled_configs(db)
    access = access_of(row, state.keyring)
    assert access is not None
    assert (access.url, access.client_id, access.client_secret) == (stand_in.url, CLIENT_ID, SECRET)


async def test_the_queue_prefix_follows_the_slug(strict: Fleet) -> None:
    organization = strict.admin["x-org-id"]

    async def rename(slug: str) -> None:
        status, answer = await strict.call("PATCH", f"/organizations/{organization}", {"slug": slug}, strict.super_admin)
        assert status == 200, answer

    await rename("before-trading")
    assert await queues(strict) == []
    await strict.call("POST", CONFIG, COMPLETE)
    await strict.call("POST", f"{CONFIG}/enable")
    assert await queues(strict) == [("before-trading", True)]
    status, answer = await strict.call("PATCH", f"/organizations/{organization}", {"slug": "amq"}, strict.super_admin)
    assert (status, answer["code"], len(answer["details"])) == (400, "VALIDATION_ERROR", 1)
    assert (await slug_of(strict), await queues(strict)) == ("before-trading", [("before-trading", True)])
    await rename("renamed")
    assert (await strict.call("GET", "/trading/connection-details"))[1]["queuePrefix"] == "renamed"
    assert await queues(strict) == [("renamed", True)], "names of own queues begin with the prefix that partners read"
    await strict.call("POST", f"{CONFIG}/disable")
    await rename("renamed-again")
    assert await queues(strict) == [("renamed-again", False)]
    await strict.call("POST", CONFIG, {"queuePrefix": "ours"})
    await rename("renamed-finally")
    assert await queues(strict) == [("ours", False)], "a prefix of its own stays"
    await strict.call("POST", f"{CONFIG}/enable")
    await rename("amq")
    assert await queues(strict) == [("ours", True)], "a reserved slug is no prefix then"
