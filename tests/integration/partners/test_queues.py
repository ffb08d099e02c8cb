"""The organisation's queues, as trading switches them on and off."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from uuid import UUID, uuid4

import pytest
from aiormq.exceptions import ChannelNotFoundEntity

from gridfleet.domains.partners.queues import amqp_address, queue_prefix, set_queues
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database, open_database
from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.clients.fleet_under_test import wait_for
from support.clients.partner_organization import Organization
from support.servers.running_stack import RunningStack


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
    return {f"{prefix}.inbound", f"vcp.{org.slug}.dropped", *(event_queue(org.slug, kind) for kind in EventKind)}


async def consumed(org: Organization, vhost: str, queue: str, seconds: float = 60) -> None:
    """Return once the gateway consumes the queue."""
    async with asyncio.timeout(seconds):
        while True:
            with contextlib.suppress(ChannelNotFoundEntity):
                async with org.service_channel(vhost) as channel:
                    if (await channel.queue_declare(queue, passive=True)).consumer_count:
                        return
            await asyncio.sleep(0.2)


async def test_they_come_and_go_with_trading(org: Organization, database: Database) -> None:
    scope = scope_in(org)
    async with database.transaction() as db:
        assert await amqp_address(db, scope) == (org.slug, None)
        assert await queue_prefix(db, scope.organization_id) == org.slug
    vhosts = [org.key()["apiKey"]["vhost"] for _ in range(2)]
    assert [org.queues(vhost) for vhost in vhosts] == [[], []]

    async with database.transaction() as db:
        assert await amqp_address(db, scope) == (org.slug, vhosts[1])
        await set_queues(db, scope, org.slug, enabled=True)
    vhosts.append(org.key()["apiKey"]["vhost"])
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: set(org.queues(vhost)) == all_queues(org, org.slug))

    async with database.transaction() as db:
        await set_queues(db, scope, "other", enabled=True)
        assert await queue_prefix(db, scope.organization_id) == "other"
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: set(org.queues(vhost)) == all_queues(org, "other"))

    async with database.transaction() as db:
        await set_queues(db, scope, "other", enabled=False)
    for vhost in vhosts:
        wait_for(lambda vhost=vhost: org.queues(vhost) == [])
    assert set(vhosts) <= org.vhosts(), "the keys still log in"


async def test_trading_that_is_toggled_quickly_leaves_no_traceback(org: Organization, database: Database) -> None:
    vhosts = [org.key()["apiKey"]["vhost"] for _ in range(3)]
    earlier = len(org.stack.log.read_text())
    for number in range(30):
        async with database.transaction() as db:
            await set_queues(db, scope_in(org), "toggled", enabled=number % 2 == 0)
        await asyncio.sleep(number % 5 * 0.1)
    async with database.transaction() as db:
        await set_queues(db, scope_in(org), "toggled", enabled=True)
    for vhost in vhosts:
        await consumed(org, vhost, "toggled.inbound")
    logged = org.stack.log.read_text()[earlier:]
    assert "Traceback" not in logged, logged
