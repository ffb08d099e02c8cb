"""Messages that waited at the broker while a secret was replaced."""

from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.credentials.packages import delete_previous_secrets
from support.builders.alerting import ago, snapshot
from support.clients.ingest_bench import Bench, BenchPlant


async def replace_secret(bench: Bench, plant: BenchPlant, old_ended_seconds_ago: float) -> None:
    """Give the plant another secret. The bench continues to sign with the old one."""
    encrypted = [
        bench.keyring.encrypt(secret, table="plant_secret", column=column, row_id=plant.id)
        for column, secret in (("hmac_secret", bytes(32)), ("previous_hmac_secret", plant.key))
    ]
    async with bench.database.transaction() as db:
        await db.execute(
            "UPDATE plant_secret SET hmac_secret = %s, previous_hmac_secret = %s, previous_valid_until = %s"
            " WHERE plant_id = %s",
            (*encrypted, datetime.now(UTC) - timedelta(seconds=old_ended_seconds_ago), plant.id),
        )


def waited(plant: BenchPlant, sent_seconds_ago: float, empty_seconds_ago: float) -> Delivery:
    """Return a message from a queue that was last empty at that time."""
    sent = ago(sent_seconds_ago)
    message = plant.message(snapshot(sent, {"a": 1}), sent_at=int(sent.timestamp() * 1000))
    message.arrived_after = int(ago(empty_seconds_ago).timestamp() * 1000)
    return message


@pytest.mark.parametrize(
    ("sent", "empty", "result"),
    [
        (1_800, 3_000, "accepted"),
        (900, 3_000, "signature_invalid"),  # sent after the old secret's end
        (1_800, 1_400, "signature_invalid"),  # claims to be sent before it, but arrived after it
    ],
)
async def test_an_old_secret_is_accepted_for_what_arrived_in_its_time(
    bench: Bench, sent: float, empty: float, result: str
) -> None:
    plant = await bench.plant()
    await replace_secret(bench, plant, old_ended_seconds_ago=1_500)

    assert (await bench.take(waited(plant, sent, empty))).results == {result: 1}


@pytest.mark.parametrize(
    ("ended", "empty", "deleted"), [(1_500, 3_000, 0), (1_500, 1_400, 1), (8 * 86_400, 9 * 86_400, 1), (-60, -120, 0)]
)
async def test_an_old_secret_is_kept_until_the_queues_were_empty(
    bench: Bench, ended: float, empty: float, deleted: int
) -> None:
    plant = await bench.plant()
    await replace_secret(bench, plant, old_ended_seconds_ago=ended)
    async with bench.database.transaction() as db:
        await db.execute("INSERT INTO ingest_shard (shard, drained_at) VALUES (0, now()), (1, %s)", (ago(empty),))

        assert await delete_previous_secrets(db) == deleted
