"""Commands between database, senders and plants' words, without a broker."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.commands.delivery import SignedCommand, claim_due, record_published
from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.plants.lifecycle import revoke_plant, suspend_plant
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import Forbidden
from gridfleet.kernel.ids import new_id
from gridfleet.sdk.plant.commands import open_command
from support.builders.accounts import caller_of
from support.builders.counters import value_of
from support.builders.interleaving import until_blocked
from support.clients.commands_at_work import add_commandable, age, history, issue, row
from support.clients.ingest_bench import Bench, BenchPlant

ENDS = {"APPLIED", "REJECTED", "FAILED", "EXPIRED"}


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
async def plant(bench: Bench) -> BenchPlant:
    return await commandable(bench)


async def commandable(bench: Bench) -> BenchPlant:
    plant = await bench.plant()
    await add_commandable(plant)
    return plant


async def claim(bench: Bench, at: datetime | None = None, limit: int = 100) -> list[SignedCommand]:
    async with bench.database.transaction() as db:
        return await claim_due(db, bench.keyring, at or now(), limit)


async def settled(bench: Bench, claimed: Sequence[SignedCommand], *, delivered: bool = True, at: datetime | None = None) -> int:
    """How many became SENT."""
    async with bench.database.transaction() as db:
        return len(await record_published(db, at or now(), [(one.command, delivered) for one in claimed], None))


async def send(bench: Bench, *command_ids: UUID) -> None:
    claimed = await claim(bench)
    assert {one.command.id for one in claimed} == set(command_ids)
    await settled(bench, claimed)


async def connect(bench: Bench, plant: BenchPlant, *others: Delivery) -> None:
    """Publish that the plant is online, in one batch with other messages."""
    await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"), *others)


async def sweep(bench: Bench) -> list[tuple[UUID, str]]:
    async with bench.database.transaction() as db:
        return [(step.command_id, step.status) for step in await expire_due(db, now(), None)]


def ack(plant: BenchPlant, command_id: UUID | str, status: str, **more: Any) -> Delivery:
    return plant.message({"commandId": str(command_id), "status": status, "time": now().isoformat(), **more}, channel="ack")


async def test_from_order_to_end(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant, "set_power", {"power_kw": 3})
    assert await history(bench.database, command) == ["PENDING"]

    await send(bench, command)
    assert await history(bench.database, command) == ["PENDING", "SENT"]

    await bench.take(ack(plant, command, "RECEIVED"), ack(plant, command, "APPLIED"))
    assert await history(bench.database, command) == ["PENDING", "SENT", "RECEIVED", "APPLIED"]
    status, finished, due = await row(bench.database, command, "status", "finished_at", "due_at")
    assert (status, due) == ("APPLIED", None)
    assert finished is not None


async def test_words_that_come_again_change_and_count_nothing(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    await send(bench, command)
    words = [ack(plant, command, "RECEIVED"), ack(plant, command, "REJECTED", reason={"code": "NO", "message": "not now"})]
    await bench.take(*words)
    before = await row(bench.database, command, "*")

    await bench.take(*words, *reversed(words))
    await bench.take(*words, pipeline=bench.another_process())

    assert await row(bench.database, command, "*") == before
    assert await history(bench.database, command) == ["PENDING", "SENT", "RECEIVED", "REJECTED"]
    assert (await row(bench.database, command, "reason"))[0] == {"code": "NO", "message": "not now"}


async def test_acknowledgements_of_foreign_and_unknown_commands_are_ignored(bench: Bench, plant: BenchPlant) -> None:
    other = await commandable(bench)
    command = await issue(plant)
    await send(bench, command)

    batch = await bench.take(ack(other, command, "APPLIED"), ack(plant, new_id(), "APPLIED"))

    assert batch.results == {"accepted": 2}
    assert await history(bench.database, command) == ["PENDING", "SENT"]
    assert await plant.refusals() == await other.refusals() == []


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ({"commandId": "c-1", "status": "APPLIED", "time": 1}, "payload.commandId: must be a UUID"),
        ({"commandId": str(new_id()), "status": "DONE", "time": 1}, "payload: Invalid enum value 'DONE' - at `$.status`"),
        (
            {"commandId": str(new_id()), "status": "APPLIED", "time": "2026-11-20T10:00:00"},
            "payload.time: a time must have a zone",
        ),
        ({"commandId": str(new_id()), "status": "APPLIED"}, "payload: Object missing required field `time`"),
    ],
)
async def test_a_word_that_cannot_be_read_is_refused(bench: Bench, plant: BenchPlant, content: Any, detail: str) -> None:
    await bench.take(plant.message(content, channel="ack"))

    [(reason, found)] = await plant.refusals()
    assert reason == "MALFORMED"
    assert found.startswith(detail)


async def test_reasons_are_kept_within_bounds(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    await send(bench, command)

    await bench.take(ack(plant, command, "FAILED", reason={"code": "C\0" * 100, "message": "m" * 10_000}))

    [reason] = await row(bench.database, command, "reason")
    assert (len(reason["code"]), len(reason["message"])) == (64, 500)


@pytest.mark.parametrize("unsent", [True, False])
async def test_the_sweep_ends_what_is_over_at_its_time(bench: Bench, plant: BenchPlant, unsent: bool) -> None:
    command, other = await issue(plant, "hurry"), await issue(plant, "stop")
    if not unsent:
        await settled(bench, await claim(bench))
    await age(bench.database, command, timedelta(seconds=2))

    assert await sweep(bench) == [(command, "EXPIRED")]
    assert await sweep(bench) == []
    status, finished, expires, reason = await row(bench.database, command, "status", "finished_at", "expires_at", "reason")
    assert (status, finished) == ("EXPIRED", expires)
    assert reason["code"] == ("NOT_SENT" if unsent else "NOT_RECEIVED")
    assert (await history(bench.database, other))[-1] != "EXPIRED"


async def test_late_words_are_recorded_with_the_state_unchanged(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant, "hurry")
    await send(bench, command)
    await age(bench.database, command, timedelta(seconds=2))
    late_before = value_of(metrics.COMMANDS.labels("LATE"))

    await bench.take(ack(plant, command, "RECEIVED"))  # before any sweep
    assert await history(bench.database, command) == ["PENDING", "SENT", "EXPIRED", "RECEIVED late"]
    await bench.take(ack(plant, command, "APPLIED"), ack(plant, command, "APPLIED"))

    assert await history(bench.database, command) == ["PENDING", "SENT", "EXPIRED", "RECEIVED late", "APPLIED late"]
    status, received, reason = await row(bench.database, command, "status", "received_at", "reason")
    assert (status, received, reason["code"]) == ("EXPIRED", None, "APPLIED_LATE")
    assert value_of(metrics.COMMANDS.labels("LATE")) == late_before + 2


async def test_a_claimed_command_is_not_claimed_again_until_its_lease_ends(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    start = now()

    assert [one.command.id for one in await claim(bench, start)] == [command]
    assert await claim(bench, start + timedelta(seconds=4.9)) == []
    assert [one.command.id for one in await claim(bench, start + timedelta(seconds=5.1))] == [command]


async def test_two_senders_never_share_a_command(bench: Bench) -> None:
    plants = [await commandable(bench) for _ in range(20)]
    issued = {await issue(plant) for plant in plants}

    shares = await asyncio.gather(*(claim(bench, limit=8) for _ in range(4)))
    # A sender looks at twice its limit only, all of which the others may have locked. The rest is found the next time.
    shares.append(await claim(bench))

    found = [one.command.id for share in shares for one in share]
    assert len(found) == len(set(found)) == 20
    assert set(found) == issued


async def test_a_plant_that_connects_again_and_again_does_not_write_its_commands_each_time(
    bench: Bench, plant: BenchPlant
) -> None:
    """A status is a few bytes, and a thousand commands may wait: those of 40 plants took longer than a statement may."""
    sent = await issue(plant)
    await send(bench, sent)
    waiting = [sent, *[await issue(plant) for _ in range(3)]]
    versions = []
    for _ in range(3):
        await connect(bench, plant)
        assert await claim(bench, limit=0) == []
        versions.append([await row(bench.database, command_id, "xmin::text", "due_at") for command_id in waiting])
    assert versions[0] == versions[1] == versions[2]
    assert all(due_at <= now() + timedelta(seconds=1) for _, due_at in versions[0])


async def test_a_batch_locks_no_command_that_waits_for_a_plant_that_connects(bench: Bench, plant: BenchPlant) -> None:
    """Other plants' messages wait for the batch. The 10,000 commands of 10 plants that connect took seconds of it."""
    answered, *waiting = [await issue(plant) for _ in range(5)]
    await send(bench, answered)
    locks = [await row(bench.database, one, "xmin::text", "xmax::text") for one in waiting]
    await connect(bench, plant, ack(plant, answered, "RECEIVED"))
    assert [await row(bench.database, one, "xmin::text", "xmax::text") for one in waiting] == locks
    assert (await row(bench.database, answered, "status"))[0] == "RECEIVED"


async def test_a_plant_whose_command_is_locked_when_it_connects_gets_it_again_later(bench: Bench, plant: BenchPlant) -> None:
    """A sender records that it had sent a command just before the plant connected. A claim waits for no lock."""
    first, second = [await issue(plant) for _ in range(2)]
    await send(bench, first)
    await connect(bench, plant)
    async with bench.database.transaction() as recording:
        await recording.execute("SELECT FROM plant_command WHERE id = %s FOR NO KEY UPDATE", (first,))
        async with asyncio.timeout(10):
            assert await claim(bench) == []
    assert await claim(bench) == []
    later = now() + timedelta(seconds=1)
    for command in (first, second):
        claimed = await claim(bench, later)
        assert [one.command.id for one in claimed] == [command]
        await settled(bench, claimed, at=later)


async def test_commands_to_one_plant_leave_in_their_order(bench: Bench, plant: BenchPlant) -> None:
    other = await commandable(bench)
    first, second, third = [await issue(plant) for _ in range(3)]
    elsewhere = await issue(other)

    claimed = await claim(bench)
    assert [one.command.id for one in claimed] == [first, elsewhere]
    assert await claim(bench) == []  # the second waits until the first is settled
    await settled(bench, claimed)
    claimed = await claim(bench)
    assert [one.command.id for one in claimed] == [second]
    await settled(bench, claimed, delivered=False)
    assert await claim(bench) == []  # and what cannot be delivered holds up what follows
    await connect(bench, plant)
    assert await claim(bench) == []  # the first was not acknowledged, and may have been lost with the plant's session
    later = now() + timedelta(seconds=1)
    for command in (first, second, third):
        claimed = await claim(bench, later)
        assert [one.command.id for one in claimed] == [command]
        await settled(bench, claimed, at=later)
    assert await claim(bench, later) == []


async def test_commands_that_were_lost_with_a_session_are_sent_again_in_their_order(bench: Bench, plant: BenchPlant) -> None:
    """The first was tried more often than the second, so it waits longer for its next attempt."""
    first, second = [await issue(plant) for _ in range(2)]
    start = now() - timedelta(seconds=242.5)
    for command, seconds in ((first, 1), (second, 125)):
        await age(bench.database, command, timedelta(seconds=243 - seconds))
    for command, seconds in ((first, 1), (first, 121), (second, 125)):
        at = start + timedelta(seconds=seconds)
        claimed = await claim(bench, at)
        assert [one.command.id for one in claimed] == [command]
        await settled(bench, claimed, at=at)
    at = start + timedelta(seconds=241)
    await settled(bench, await claim(bench, at), delivered=False, at=at)
    await connect(bench, plant)
    assert [one.command.id for one in await claim(bench, now() + timedelta(seconds=0.7))] == [first, second]


async def test_an_emergency_does_not_wait_in_line(bench: Bench, plant: BenchPlant) -> None:
    await issue(plant)
    await claim(bench)
    emergency = await issue(plant)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant_command SET type = 'EMERGENCY' WHERE id = %s", (emergency,))

    await send(bench, emergency)


async def test_an_unroutable_command_waits_longer_each_time_until_its_plant_is_online(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    moment = now()
    waits = []
    for _ in range(6):
        claimed = await claim(bench, moment)
        assert await settled(bench, claimed, delivered=False, at=moment) == 0
        [due] = await row(bench.database, command, "due_at")
        waits.append((due - moment).total_seconds())
        moment = due
    assert waits == [1, 2, 4, 8, 15, 15]
    assert await history(bench.database, command) == ["PENDING"]

    await connect(bench, plant)

    await send(bench, command)


async def test_a_plant_that_comes_back_while_its_command_is_on_its_way_gets_it_again(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    claimed = await claim(bench)
    await connect(bench, plant)
    await settled(bench, claimed, delivered=False)

    assert [one.command.id for one in await claim(bench)] == [command]


async def test_other_words_of_a_plant_do_not_wake_its_commands(bench: Bench, plant: BenchPlant) -> None:
    await issue(plant)
    await settled(bench, await claim(bench))

    await bench.take(plant.delivery(b'{"status": "OFFLINE"}', "status"), plant.message({"time": now().isoformat()}))

    assert await claim(bench) == []


async def test_a_command_is_sent_again_until_the_plant_has_it(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    start = now()
    [first] = await claim(bench, start)
    await settled(bench, [first])

    assert await claim(bench, start + timedelta(seconds=115)) == []
    [second] = await claim(bench, start + timedelta(seconds=125))
    assert second.command.id == command
    assert second.message != first.message  # signed anew: a plant takes no message older than ten minutes
    assert await settled(bench, [second]) == 0
    await bench.take(ack(plant, command, "RECEIVED"))
    assert await claim(bench, start + timedelta(seconds=600)) == []
    assert await history(bench.database, command) == ["PENDING", "SENT", "RECEIVED"]


async def test_a_copy_lives_no_longer_than_its_command_nor_than_plants_accept(bench: Bench, plant: BenchPlant) -> None:
    await issue(plant, "stop")
    other = await commandable(bench)
    await issue(other, "hurry")
    start = now()

    long, short = [one.life for one in await claim(bench, start)]

    assert long == timedelta(minutes=5)
    assert timedelta(0) < short <= timedelta(seconds=1)


async def test_copies_that_wait_for_a_plant_arrive_in_the_order_of_their_commands(bench: Bench, plant: BenchPlant) -> None:
    """The broker keeps each copy for its life. A plant that reconnects executes the first copy of each command."""
    start = now()
    commands = []
    for seconds in (0, 114, 150, 180, 334):
        commands.append(await issue(plant))
        await age(bench.database, commands[-1], -timedelta(seconds=seconds))
    copies: list[tuple[UUID, datetime, datetime]] = []
    moments = [start + timedelta(seconds=seconds) for seconds in range(1, 900, 4)]
    for at in moments:
        while claimed := await claim(bench, at):
            copies += [(one.command.id, at, at + one.life) for one in claimed]
            await settled(bench, claimed, at=at)

    for at in moments:
        waiting = dict.fromkeys(command for command, sent, ends in copies if sent <= at < ends)
        assert list(waiting) == commands[: len(waiting)], f"{(at - start).total_seconds():.0f} s after the first command"
    assert len(waiting) == len(commands)


async def test_a_plant_that_answers_before_its_command_is_marked_as_sent(bench: Bench, plant: BenchPlant) -> None:
    """Its sender was killed between publishing and writing that down, or was merely slow."""
    command = await issue(plant)
    claimed = await claim(bench)
    await bench.take(ack(plant, command, "RECEIVED"))

    assert await settled(bench, claimed) == 0
    assert await history(bench.database, command) == ["PENDING", "SENT", "RECEIVED"]
    assert await claim(bench, now() + timedelta(minutes=10)) == []


async def test_a_command_that_was_published_too_late_is_not_sent(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant, "hurry")
    claimed = await claim(bench)
    await age(bench.database, command, timedelta(seconds=2))

    assert await settled(bench, claimed) == 0
    assert await sweep(bench) == [(command, "EXPIRED")]


async def test_a_suspended_plant_is_sent_nothing_until_it_is_reactivated(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant)
    await _lifecycle(plant, "SUSPENDED")
    assert await claim(bench) == []

    await _lifecycle(plant, "ACTIVE")

    await send(bench, command)


@pytest.mark.parametrize("end", [suspend_plant, revoke_plant])
async def test_a_plant_that_is_suspended_or_revoked_meanwhile_accepts_no_command(
    bench: Bench, plant: BenchPlant, end: Callable[[Connection, OrgScope, UUID], Awaitable[None]]
) -> None:
    org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller_of(new_id()))
    async with bench.database.transaction() as db:
        await end(db, org, plant.id)
        issuing = asyncio.create_task(issue(plant))
        await until_blocked(bench.database)
    with pytest.raises(Forbidden, match="only an ACTIVE plant"):
        await issuing
    assert await plant.rows("SELECT FROM plant_command WHERE plant_id = %s") == []


async def test_a_command_is_signed_with_the_newest_secret(bench: Bench, plant: BenchPlant) -> None:
    newest = bytes(reversed(range(32)))
    await issue(plant)
    secrets = [
        bench.keyring.encrypt(key, table="plant_secret", column=column, row_id=plant.id)
        for key, column in ((newest, "hmac_secret"), (plant.key, "previous_hmac_secret"))
    ]
    async with bench.database.transaction() as db:
        await db.execute(
            "UPDATE plant_secret SET hmac_secret = %s, previous_hmac_secret = %s,"
            " previous_valid_until = now() + interval '1 hour' WHERE plant_id = %s",
            (*secrets, plant.id),
        )

    [signed] = await claim(bench)

    assert opened(signed, newest)["commandId"] == str(signed.command.id)


async def test_a_secret_that_cannot_be_read_holds_up_its_own_plant_only(bench: Bench, plant: BenchPlant) -> None:
    other = await commandable(bench)
    await issue(plant)
    command = await issue(other)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant_secret SET key_version = 9 WHERE plant_id = %s", (plant.id,))

    assert [one.command.id for one in await claim(bench)] == [command]


def opened(signed: SignedCommand, key: bytes) -> Any:
    """What the plant's client makes of the message."""
    command = open_command(signed.message, key=key, address=signed.topic, now_milliseconds=int(now().timestamp() * 1000))
    return msgspec.to_builtins(command)


async def test_the_plant_reads_what_was_asked(bench: Bench, plant: BenchPlant) -> None:
    command = await issue(plant, "set_power", {"power_kw": -2.5})

    [signed] = await claim(bench)

    content = opened(signed, plant.key)
    issued = datetime.fromisoformat(content.pop("issuedAt"))
    assert datetime.fromisoformat(content.pop("expiresAt")) - issued == timedelta(seconds=30)
    assert content == {
        "commandId": str(command),
        "type": "DEVICE_COMMAND",
        "target": "BAT1",
        "action": "set_power",
        "params": {"power_kw": -2.5},
    }


async def _lifecycle(plant: BenchPlant, status: str) -> None:
    async with plant.bench.database.transaction() as db:
        await db.execute("UPDATE plant SET lifecycle_status = %s WHERE id = %s", (status, plant.id))


async def test_a_notice_goes_out_with_the_commit_of_an_order_and_when_a_plant_comes_back(
    bench: Bench, plant: BenchPlant
) -> None:
    async with await psycopg.AsyncConnection.connect(bench.database.url, autocommit=True) as listener:
        await listener.execute("LISTEN plant_command_due")

        async def notices() -> int:
            return len([notice async for notice in listener.notifies(timeout=0.2)])

        await issue(plant)
        assert await notices() == 1
        await connect(bench, plant)
        assert await notices() == 1
        await settled(bench, await claim(bench))
        await bench.take(plant.delivery(b'{"status": "OFFLINE"}', "status"))
        assert await notices() == 0


async def test_whatever_happens_at_once_histories_are_legal(bench: Bench) -> None:
    """Senders, sweeps and two ingest processes work on the same commands in random order, words are repeated and mixed."""
    plants = [await commandable(bench) for _ in range(4)]
    commands = [(plant, await issue(plant, random.choice(["hurry", "stop"]))) for _ in range(10) for plant in plants]
    pipelines = [bench.pipeline, bench.another_process()]
    until = now() + timedelta(seconds=4)

    async def sender() -> None:
        while now() < until:
            claimed = await claim(bench, limit=5)
            await asyncio.sleep(random.random() * 0.02)
            await settled(bench, claimed, delivered=random.random() < 0.8)

    async def sweeper() -> None:
        while now() < until:
            await sweep(bench)
            await asyncio.sleep(0.05)

    async def hearer(pipeline: Any) -> None:
        while now() < until:
            words = []
            for plant, command in random.sample(commands, 8):
                said = random.choices(["RECEIVED", "APPLIED", "REJECTED", "FAILED"], [6, 1, 1, 1])[0]
                words += [ack(plant, command, said)] * random.choice([1, 2])
            words += [plant.delivery(b'{"status": "ONLINE"}', "status") for plant in random.sample(plants, 2)]
            await bench.take(*words, pipeline=pipeline)
            await asyncio.sleep(random.random() * 0.05)

    await asyncio.gather(sender(), sender(), sweeper(), sweeper(), *(hearer(pipeline) for pipeline in pipelines))

    for _, command in commands:
        path = [state for state in await history(bench.database, command) if " " not in state]
        status, sent, received, finished = await row(bench.database, command, "status", "sent_at", "received_at", "finished_at")
        way = [state for state in path if state not in ENDS]
        assert way == ["PENDING", "SENT", "RECEIVED"][: len(way)]
        assert len(path) - len(way) <= 1
        assert status == path[-1]
        assert (status == "EXPIRED" or status not in ENDS) or len(way) == 3
        assert [sent is not None, received is not None, finished is not None] == [len(way) > 1, len(way) > 2, status in ENDS]


async def test_the_end_of_commands_does_not_wait_for_a_plant_that_is_being_moved_or_deleted(
    bench: Bench, plant: BenchPlant
) -> None:
    """It waited for the plant with the plant's commands locked, for which the move waited: a deadlock."""
    other = await commandable(bench)
    withdrawn, passed = await issue(plant), await issue(other)
    await age(bench.database, passed, timedelta(hours=2))
    async with bench.database.transaction() as db:
        await db.execute("INSERT INTO plant_command_withdrawn (command_id, at) VALUES (%s, now())", (withdrawn,))

    async def end() -> set[UUID]:
        async with bench.database.transaction() as db:
            return {step.command_id for step in await expire_due(db, now(), None)}

    async with bench.database.transaction() as db:
        await db.execute("SELECT FROM plant WHERE id = %s FOR UPDATE", (plant.id,))
        assert await end() == {passed}
    assert await end() == {withdrawn}
