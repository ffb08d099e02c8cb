"""Alerts of a plant that moves to another organisation follow it in short transactions, however many they are."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import pytest

from gridfleet.domains.alerts.actions import acknowledge_many, resolve_many
from gridfleet.domains.alerts.models import AlertOutcome, AlertStatus
from gridfleet.domains.alerts.moves import follow_moves
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.builders.interleaving import until_blocked
from support.clients.ingest_bench import Bench, BenchPlant

MANY = 2_500
"""Earlier alerts: more than two transactions move."""


@dataclass
class Sale:
    """A plant with many earlier alerts and one whose condition holds, and the organisation that it moves to."""

    bench: Bench
    plant: BenchPlant
    seller: UUID
    buyer: UUID

    async def move(self, db: Connection, start: UUID, to: UUID) -> None:
        caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
        org = OrgScope(start, OrgRole.ORG_ADMIN, caller)
        await update_plant(db, org, self.plant.id, PlantChanges(organization_id=to))

    async def moved(self) -> None:
        async with self.bench.database.transaction() as db:
            await self.move(db, self.seller, self.buyer)

    async def counts(self) -> tuple[int, int]:
        """The rows of the former and of the new organisation."""
        found = dict(await self.plant.rows("SELECT organization_id, count(*)::int FROM alert WHERE plant_id = %s GROUP BY 1"))
        return found.get(self.seller, 0), found.get(self.buyer, 0)

    async def open_move_count(self) -> int:
        return len(await self.plant.rows("SELECT FROM moved_plant WHERE plant_id = %s"))


@pytest.fixture
async def sale(bench: Bench) -> Sale:
    plant, other = await bench.plant(), await bench.plant()
    await add_rule(bench.database, plant.organization_id, plant_id=plant.id, auto_resolve=True)
    await bench.take(plant.message(snapshot(ago(100), {"soc": 5})))
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at,"
            " created_at) SELECT gen_random_uuid(), %s, %s, 'INFO', 'ACTIVE', 'Old', 'soc', 1, now(),"
            " now() - (number / 2) * interval '1 second' FROM generate_series(2, %s) AS number",
            (plant.organization_id, plant.id, MANY + 1),
        )
    return Sale(bench, plant, plant.organization_id, other.organization_id)


async def test_a_move_changes_few_alerts_and_the_others_follow(sale: Sale) -> None:
    async with sale.bench.database.transaction() as db:
        await sale.move(db, sale.seller, sale.buyer)
        cursor = await db.execute("SELECT count(*) FROM alert WHERE organization_id = %s", (sale.buyer,))
        assert await cursor.fetchone() == (1,), "the messages of all plants wait for this transaction"
    assert await alerts_of(sale.bench.database, sale.seller) == []
    [current] = await alerts_of(sale.bench.database, sale.buyer)
    sale.bench.pipeline.invalidate()  # as after the database's notification
    await sale.bench.take(sale.plant.message(snapshot(ago(50), {"soc": 50})))
    [resolved] = await alerts_of(sale.bench.database, sale.buyer)
    assert (resolved.id, resolved.status) == (current.id, AlertStatus.RESOLVED)

    await follow_moves(sale.bench.database)

    assert await sale.counts() == (0, MANY + 1)
    assert await sale.open_move_count() == 0


async def test_no_one_changes_an_alert_that_has_not_followed_yet(sale: Sale) -> None:
    old = [row[0] for row in await sale.plant.rows("SELECT id FROM alert WHERE plant_id = %s AND message = 'Old' LIMIT 3")]
    await sale.moved()
    for organization_id in (sale.seller, sale.buyer):
        for change in (acknowledge_many, resolve_many):
            async with sale.bench.database.transaction() as db:
                results = await change(db, operator(organization_id), old)
            assert {one.outcome for one in results} == {AlertOutcome.NOT_FOUND}
    await follow_moves(sale.bench.database)
    async with sale.bench.database.transaction() as db:
        results = await acknowledge_many(db, operator(sale.buyer), old)
    assert {one.outcome for one in results} == {AlertOutcome.CHANGED}


async def test_a_plant_that_moves_again_meanwhile_takes_all_alerts_along(sale: Sale) -> None:
    await sale.moved()
    async with sale.bench.database.transaction() as db:
        await sale.move(db, sale.buyer, sale.seller)
        following = asyncio.create_task(follow_moves(sale.bench.database))
        await until_blocked(sale.bench.database)
    await following
    assert await sale.counts() == (MANY + 1, 0)
    await follow_moves(sale.bench.database)
    assert (await sale.counts(), await sale.open_move_count()) == ((MANY + 1, 0), 0)


async def test_a_deleted_plant_is_not_followed(sale: Sale) -> None:
    await sale.moved()
    async with sale.bench.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (sale.plant.id,))
        following = asyncio.create_task(follow_moves(sale.bench.database))
        await until_blocked(sale.bench.database)
    await following
    assert (await sale.counts(), await sale.open_move_count()) == ((0, 0), 0)
