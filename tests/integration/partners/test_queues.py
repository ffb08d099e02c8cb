"""The organisation's queues, as trading switches them on and off."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from aiormq.exceptions import ChannelPreconditionFailed

from fleet_under_test import wait_for
from gridfleet.domains.partners.queues import amqp_place, queue_prefix, set_queues
from gridfleet.kernel.caller import OrgRole, OrgScope, SystemScope, UserCaller
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.embedded import EmbeddedPostgres
from gridfleet.protocol.partner_keys import EventKind, event_queue
from partner_organization import Organization
from running_stack import RunningStack

SYSTEM = SystemScope("a test looks")


@pytest.fixture(scope="module")
def org(stack: RunningStack) -> Iterator[Organization]:
    """An organisation that has not traded yet."""
    found = Organization(stack, queues=False)
    yield found
    found.close()


@pytest.fixture
async def database(org: Organization) -> AsyncIterator[Database]:
    async with open_database(EmbeddedPostgres(org.stack.home).url, name="test", size=2) as opened:
        yield opened


def scope_in(org: Organization) -> OrgScope:
    admin = UserCaller(uuid4(), uuid4(), "a@example.com", "A", is_super_admin=False, default_organization_id=None)
    return OrgScope(UUID(org.organization_id), OrgRole.ORG_ADMIN, admin)


def all_queues(org: Organization, prefix: str) -> set[str]:
    return {f"{prefix}.inbound", *(event_queue(org.slug, kind) for kind in EventKind)}


async def test_they_come_and_go_with_trading(org: Organization, database: Database) -> None:
    scope = scope_in(org)
    async with database.transaction() as db:
        assert await amqp_place(db, scope) == (org.slug, None)
        assert await queue_prefix(db, SYSTEM, scope.organization_id) == org.slug
    vhosts = [org.key()["apiKey"]["vhost"] for _ in range(2)]
    assert [org.queues(vhost) for vhost in vhosts] == [[], []]

    async with database.transaction() as db:
        assert await amqp_place(db, scope) == (org.slug, vhosts[1])
        await set_queues(db, scope, org.slug, enabled=True)
    vhosts.append(org.key()["apiKey"]["vhost"])
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: set(org.queues(vhost)) == all_queues(org, org.slug))

    async with database.transaction() as db:
        await set_queues(db, scope, "other", enabled=True)
        assert await queue_prefix(db, SYSTEM, scope.organization_id) == "other"
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: set(org.queues(vhost)) == all_queues(org, "other"))

    async with database.transaction() as db:
        await set_queues(db, scope, "other", enabled=False)
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: org.queues(vhost) == [])
    assert set(vhosts) <= org.vhosts(), "the keys still log in"


async def test_nothing_that_a_partner_lets_lie_fills_the_broker(org: Organization, database: Database) -> None:
    """All plants share its disk: once that is full, none of them can publish."""
    async with database.transaction() as db:
        await set_queues(db, scope_in(org), "ours", enabled=True)
    created = org.key()
    vhost = created["apiKey"]["vhost"]
    async with org.connected(created) as connection:
        channel = await connection.channel()
        room = 100 - len(org.queues(vhost))
        for number in range(room):
            await channel.queue_declare(f"ours.{number}", durable=True, arguments={"x-max-length-bytes": 2**40})
        with pytest.raises(ChannelPreconditionFailed):
            await channel.queue_declare("ours.more", durable=True)

    policies = httpx.get(f"{org.management_url}/api/policies/{vhost}").json()

    def bounds(queue: str) -> Any:
        matching = [policy for policy in policies if policy["apply-to"] == "queues" and re.search(policy["pattern"], queue)]
        return max(matching, key=lambda policy: policy["priority"])["definition"]

    forgotten = {"message-ttl": 24 * 3600 * 1000, "max-length-bytes": 256 * 2**20, "overflow": "drop-head"}
    assert bounds("ours.0") == forgotten
    assert bounds(event_queue(org.slug, EventKind.TELEMETRY)) == forgotten
    assert bounds("ours.inbound.mine") == forgotten
    assert bounds("ours.inbound") == {"max-length-bytes": 64 * 2**20, "overflow": "reject-publish"}
