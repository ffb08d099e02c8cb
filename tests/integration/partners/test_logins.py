"""Who may log in to the broker as a partner, over AMQPS, and what ends it."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from aiormq.exceptions import AMQPError, ChannelAccessRefused

from gridfleet.kernel.broker.management import open_management
from gridfleet.local.secrets import local_secret
from gridfleet.protocol.partner_routes import EventKind, event_queue
from gridfleet.sdk.partner import LoginRefused, Partner
from support.clients.fleet_under_test import JsonObject, wait_for
from support.clients.partner_address import address_of
from support.clients.partner_organization import Organization
from support.servers.broker_line import broker_line
from support.servers.running_stack import RunningStack


@pytest.fixture(scope="module")
def created(acme: Organization) -> JsonObject:
    return acme.key()


async def is_refused(org: Organization, created: JsonObject, **changes: Any) -> bool:
    """Whether the broker keeps a login out."""
    try:
        async with org.connected(created, **changes):
            return False
    except (AMQPError, ConnectionError):
        return True


def newest_refusal(org: Organization) -> JsonObject:
    return org.events("partner.connection_refused")[0]


async def test_the_create_response_is_enough_to_consume(acme: Organization) -> None:
    created = acme.key(["vcp:connect"])
    assert acme.record(created)["lastUsedAt"] is None, "the proof is no use"
    for _ in range(2):
        async with acme.connected(created) as connection:
            channel = await connection.channel()
            for kind in EventKind:
                await channel.basic_consume(event_queue(acme.slug, kind), lambda _: asyncio.sleep(0), no_ack=True)
    connections = [event for event in acme.events("partner.connected") if event["subjectId"] == created["apiKey"]["id"]]
    assert len(connections) == 1, "the first login alone"
    assert connections[0]["ip"] == "127.0.0.1"
    assert acme.record(created)["lastUsedAt"] is not None


async def test_a_login_must_be_right_in_every_part(acme: Organization, acme_energy: Organization, created: JsonObject) -> None:
    other, foreign = acme.key(["vcp:connect"]), acme_energy.key(["vcp:connect"])
    assert await is_refused(acme, created, user=acme_energy.slug)
    assert newest_refusal(acme)["details"] == {"reason": "wrong user name"}
    for vhost in (other["apiKey"]["vhost"], foreign["apiKey"]["vhost"], "/", "plants"):
        assert await is_refused(acme, created, vhost=vhost)
        assert newest_refusal(acme)["details"] == {"reason": "wrong vhost"}
        assert newest_refusal(acme)["ip"] == "127.0.0.1"
    before = acme.sql("SELECT count(*) FROM audit_event WHERE organization_id IS NULL AND details->>'reason' = 'bad key'")
    for key in ("wrong", created["key"][:-1] + "_", "gf_live_", "x" * 500):
        assert await is_refused(acme, created, key=key)
    after = acme.sql("SELECT count(*) FROM audit_event WHERE organization_id IS NULL AND details->>'reason' = 'bad key'")
    assert after[0][0] - before[0][0] == 4
    assert not await is_refused(acme, created)


async def test_the_client_says_what_to_look_at(acme: Organization, stack: RunningStack, created: JsonObject) -> None:
    """Not only what the broker says, which is nothing, or a frame that the library did not expect."""
    right, authority = address_of(stack, acme.slug, created), (stack.home / "ca" / "ca.pem").read_text()
    for wrong in (right.replace(f"//{acme.slug}:", "//nobody:"), right.replace(":gf", ":fg"), f"{right}x"):
        assert wrong != right
        with pytest.raises(LoginRefused, match="audit events say why"):
            async with Partner(wrong, authority=authority):
                pass


async def test_the_name_of_each_address_is_verified(acme: Organization, stack: RunningStack, created: JsonObject) -> None:
    right, authority = address_of(stack, acme.slug, created), (stack.home / "ca" / "ca.pem").read_text()
    async with broker_line(right, host="127.0.0.2") as line:
        unnamed = line.url(right).replace("@localhost", "@127.0.0.2")
        with pytest.raises(AMQPError, match="CERTIFICATE_VERIFY_FAILED"):
            async with Partner(unnamed, authority=authority):
                pass
        async with Partner([unnamed, right], authority=authority) as partner, asyncio.timeout(20):
            assert partner.slug == acme.slug
        assert len(line.serving) == 2


async def test_strangers_cannot_fill_the_audit_log(acme: Organization, created: JsonObject) -> None:
    count = "SELECT count(*) FROM audit_event WHERE organization_id IS NULL AND event = 'partner.connection_refused'"
    [(before,)] = acme.sql(count)
    [(lately,)] = acme.sql(f"{count} AND created_at > now() - interval '1 minute'")
    secret = local_secret(acme.stack.home, "internal_secret")
    question = f"http://127.0.0.1:{acme.stack.ports['internal_port']}/{secret}/broker/user"
    for number in range(70):
        answer = httpx.post(question, data={"username": "acme", "password": f"gf_live_{number}"})
        assert answer.text == "deny"
    [(after,)] = acme.sql(count)
    assert 60 - lately <= after - before <= 60
    assert not await is_refused(acme, created)


@pytest.mark.parametrize("name", ["acme\0", "_gridfleet_nobody_\0", "SERIALNUMBER=1,CN=_gridfleet_nobody_\0"])
def test_a_user_name_that_the_database_cannot_store_is_refused(acme: Organization, name: str) -> None:
    secret = local_secret(acme.stack.home, "internal_secret")
    question = f"http://127.0.0.1:{acme.stack.ports['internal_port']}/{secret}/broker/user"
    answer = httpx.post(question, data={"username": name, "password": "gf_live_1"})
    assert (answer.status_code, answer.text) == (200, "deny")


async def test_a_key_for_rest_alone_has_no_place_at_the_broker(acme: Organization) -> None:
    created = acme.key(["plants:read"])
    assert created["apiKey"]["vhost"] not in acme.vhosts()
    assert await is_refused(acme, created)
    assert newest_refusal(acme)["details"] == {"reason": "no scope for the broker"}


async def test_addresses_are_looked_at(acme: Organization) -> None:
    near, far = acme.key(allowedIps=["127.0.0.0/8"]), acme.key(allowedIps=["192.0.2.0/24", "2001:db8::/32"])
    assert not await is_refused(acme, near)
    assert await is_refused(acme, far)
    refusal = newest_refusal(acme)
    assert (refusal["details"], refusal["ip"]) == ({"reason": "address not allowed"}, "127.0.0.1")
    assert refusal["subjectId"] == far["apiKey"]["id"]


async def test_revoking_closes_what_is_open_and_leaves_nothing(acme: Organization) -> None:
    created, other = acme.key(), acme.key()
    async with acme.connected(created) as connection, acme.connected(other) as left_alone:
        closed = asyncio.ensure_future(connection.closing)
        acme.revoke(created)
        await asyncio.wait([closed], timeout=15)
        assert closed.done()
        assert await is_refused(acme, created)
        assert newest_refusal(acme)["details"] == {"reason": "revoked"}
        wait_for(lambda: created["apiKey"]["vhost"] not in acme.vhosts())
        assert not left_alone.is_closed
        await left_alone.channel()


async def test_expiry_closes_what_is_open(acme: Organization) -> None:
    created = acme.key(expiresAt="2099-01-01T00:00:00Z")
    async with acme.connected(created) as connection:
        closed = asyncio.ensure_future(connection.closing)
        acme.sql("UPDATE partner_key SET expires_at = now() WHERE id = %s", [created["apiKey"]["id"]])
        await asyncio.wait([closed], timeout=30)
        assert closed.done()
    assert await is_refused(acme, created)
    assert newest_refusal(acme)["details"] == {"reason": "expired"}
    assert acme.record(created)["isActive"] is False


async def test_a_key_can_be_tried(acme: Organization, created: JsonObject) -> None:
    path = f"/partner/api-keys/{created['apiKey']['id']}/test-connection"
    trial = acme.call("POST", path, {"key": created["key"]})
    assert (trial["ok"], trial["error"]) == (True, None)
    assert trial["durationMs"] > 0
    far = acme.key(allowedIps=["192.0.2.0/24"])
    trial = acme.call("POST", f"/partner/api-keys/{far['apiKey']['id']}/test-connection", {"key": far["key"]})
    assert trial["ok"] is False
    assert "the address is not allowed" in trial["error"]
    assert far["key"] not in trial["error"]


async def test_a_vhost_that_the_broker_lost_is_made_again(acme: Organization, stack: RunningStack) -> None:
    created = acme.key()
    vhost = created["apiKey"]["vhost"]
    async with open_management(acme.management_url) as management:
        await management.delete_vhost(vhost)
    stack.wait_for_restart("gateway", stack.kill("gateway"))
    wait_for(lambda: len(acme.queues(vhost)) == 6, 300)
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.basic_consume(event_queue(acme.slug, EventKind.STATUS), lambda _: asyncio.sleep(0), no_ack=True)


async def test_a_key_of_an_older_installation_shares_the_first_vhost(acme: Organization, acme_energy: Organization) -> None:
    old, foreign = acme.key(["vcp:connect"]), acme_energy.key(["vcp:connect"])
    for org, key in ((acme, old), (acme_energy, foreign)):
        org.sql("UPDATE partner_key SET vhost = '/' WHERE id = %s", [key["apiKey"]["id"]])
        org.sql("UPDATE partner_queues SET prefix = %s WHERE organization_id = %s", [acme_energy.slug, org.organization_id])
        settle(org, key)
    mine, theirs = event_queue(acme.slug, EventKind.STATUS), event_queue(acme_energy.slug, EventKind.STATUS)
    async with acme.connected(old, vhost="/") as connection:
        channel = await connection.channel()
        await channel.basic_get(mine, no_ack=True)
        await channel.basic_publish(b"{}", exchange="vcp", routing_key=f"{acme.slug}.command.mode")
        for queue in (theirs, f"{acme_energy.slug}.inbound", f"{acme_energy.slug}.x"):
            with pytest.raises(ChannelAccessRefused):
                await (await connection.channel()).basic_get(queue, no_ack=True)
        closed = asyncio.ensure_future(connection.closing)
        acme.revoke(old)
        await asyncio.wait([closed], timeout=15)
        assert closed.done()
    wait_for(lambda: mine not in acme.queues("%2F"))
    assert theirs in acme.queues("%2F")
    acme_energy.revoke(foreign)
    for org in (acme, acme_energy):
        org.sql("UPDATE partner_queues SET prefix = %s WHERE organization_id = %s", [org.slug, org.organization_id])


def settle(org: Organization, created: JsonObject) -> None:
    """Has the gateway look after a key's vhost, and waits for the queues."""
    key = created["apiKey"]
    payload = {"keyId": key["id"], "vhost": "/", "slug": org.slug, "organizationId": org.organization_id, "unwanted": []}
    org.sql("INSERT INTO outbox (kind, payload, due_at) VALUES ('partners.settle_vhost', %s, now())", [json.dumps(payload)])
    wait_for(lambda: f"{org.slug}.inbound" in org.queues("%2F"))
