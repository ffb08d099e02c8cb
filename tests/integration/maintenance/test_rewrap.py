"""Every encrypted row under another version of the keyring: completely, while others read and write, whatever is killed."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gridfleet.domains.maintenance.rewrapping import ENCRYPTED, KeyVersion, Rewrapped, key_versions, rewrap, versions_in_use
from gridfleet.domains.plants.credentials.signing_keys import load_signing_keys
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Database
from gridfleet.kernel.security.keyring import Keyring
from support.builders.encrypted_rows import TABLES, EncryptedRows
from support.clients.people import People, refused
from support.servers import rewrap_process
from support.servers.api_service import ApiService, api_service

ONE, TWO = f"1:{'11' * 32}", f"2:{'22' * 32}"
OLD, BOTH, STILL_OLD, NEW = (Keyring.parse(text) for text in (ONE, f"{ONE},{TWO}", f"{ONE}:current,{TWO}", TWO))
US = Actor(ActorType.SYSTEM)
PATH = "/api/v1/internal/crypto/rewrap"


@pytest.fixture
def rows(database: Database) -> EncryptedRows:
    return EncryptedRows(database, OLD)


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home, keys=f"{ONE},{TWO}", rate_limits="off") as running:
        yield running


async def test_every_encrypted_row_has_the_new_version_and_the_old_key_may_go(rows: EncryptedRows) -> None:
    await rows.fill(plants=5, others=3)
    assert await rewrap(rows.database, BOTH, 2, US) == Rewrapped(2, 5, 3, 0)
    assert set(map(frozenset, (await rows.versions()).values())) == {frozenset({2})}
    await rows.read_all(NEW)
    assert await rewrap(rows.database, BOTH, 2, US) == Rewrapped(2, 0, 0, 0)
    # Back again: any version of the ring will do.
    assert await rewrap(rows.database, BOTH, 1, US) == Rewrapped(1, 5, 3, 0)
    await rows.read_all(OLD)


async def test_no_encrypted_column_is_forgotten(database: Database) -> None:
    """A table that gets a key version has to be declared among those that are rewrapped."""
    async with database.transaction() as db:
        cursor = await db.execute("SELECT table_name FROM information_schema.columns WHERE column_name = 'key_version'")
        found = {table for (table,) in await cursor.fetchall()}
        counted = await key_versions(db)
    assert found == set(TABLES)
    assert counted.keys() == found | {"mail"} == {encrypted.kind for encrypted in ENCRYPTED}


async def test_rows_that_cannot_be_decrypted_are_counted_and_do_not_stop_the_rest(
    rows: EncryptedRows, caplog: pytest.LogCaptureFixture
) -> None:
    await rows.fill(plants=450, others=2)
    broken = sorted(rows.secrets)[::90]
    async with rows.database.transaction() as db:
        await db.execute("UPDATE plant_secret SET hmac_secret = '\\x00ff' WHERE plant_id = ANY(%s)", (broken[:2],))
        await db.execute("UPDATE plant_secret SET package = hmac_secret WHERE plant_id = %s", (broken[2],))
        await db.execute("UPDATE plant_secret SET key_version = 7 WHERE plant_id = ANY(%s)", (broken[3:],))
    await rows.break_mail()
    result = await rewrap(rows.database, BOTH, 2, US)
    assert result == Rewrapped(2, 450 - len(broken), 2, len(broken) + 2)
    async with rows.database.transaction() as db:
        cursor = await db.execute("SELECT plant_id FROM plant_secret WHERE key_version <> 2 ORDER BY 1")
        assert [plant for (plant,) in await cursor.fetchall()] == broken
        assert await key_versions(db) == {
            "plant_secret": {1: 3, 2: 450 - len(broken), 7: len(broken) - 3},
            **{table: {2: 2} for table in ("trading_config", "partner_key", "idempotent_answer")},
            "certificate_authority": {2: 1},
            "mail": {1: 2},
        }
        missing = len(broken) - 3
        assert await versions_in_use(db, BOTH) == [
            KeyVersion(1, is_in_keyring=True, is_current=False, rows=3 + 2),
            KeyVersion(2, is_in_keyring=True, is_current=True, rows=450 - len(broken) + 3 * 2 + 1),
            KeyVersion(7, is_in_keyring=False, is_current=False, rows=missing),
        ]


async def test_a_run_that_is_killed_is_taken_up_and_everything_can_be_read_all_the_while(
    rows: EncryptedRows, database_url: str
) -> None:
    await rows.fill(plants=2_000, others=5)
    readings = 0

    async def read() -> None:
        nonlocal readings
        while True:
            await rows.read_all(BOTH)
            readings += 1

    async with reading(read()):
        migrated = await asyncio.to_thread(killed_in_the_middle, database_url, list(rows.secrets))
        before = readings
        again = started(database_url)
        output, _ = await asyncio.to_thread(again.communicate, timeout=60)
        assert again.returncode == 0
        assert f"plants={2_000 - migrated}," in output
        assert "failed=0" in output
        async with asyncio.timeout(60):
            while readings < before + 2:
                await asyncio.sleep(0.01)
    assert set(map(frozenset, (await rows.versions()).values())) == {frozenset({2})}
    await rows.read_all(NEW)


async def test_what_others_write_meanwhile_is_never_overwritten(service: ApiService) -> None:
    """Secrets are rotated by a process that writes version 2 while rows are rewrapped to and fro by one that writes 1."""
    database = service.state.database
    rows = EncryptedRows(database, STILL_OLD)
    await rows.fill(plants=40, others=0)
    admin = await service.super_admin()
    async with database.transaction() as db:
        cursor = await db.execute("SELECT organization_id FROM plant LIMIT 1")
        [(organization,)] = await cursor.fetchall()
    headers = admin | {"x-org-id": str(organization)}
    newest: dict[UUID, bytes] = {}
    rounds = 0

    async def rotate(plants: list[UUID]) -> None:
        for plant in plants * 2:
            answer = await service.client.post(f"/api/v1/plants/{plant}/rotate-secret", headers=headers)
            assert answer.status_code == 200, answer.text
            newest[plant] = bytes.fromhex(answer.json()["hmacSecret"])

    async def back_and_forth() -> None:
        nonlocal rounds
        while True:
            assert (await rewrap(database, STILL_OLD, 1 + rounds % 2, US)).failed == 0
            rounds += 1

    plants = sorted(rows.secrets)
    async with reading(back_and_forth()):
        await asyncio.gather(*(rotate(plants[start::4]) for start in range(4)))
    assert rounds > 1
    async with database.transaction() as db:
        found = await load_signing_keys(db, BOTH, plants)
    assert {plant: keys and keys.current for plant, keys in found.items()} == newest


async def test_a_locked_row_is_waited_for(rows: EncryptedRows) -> None:
    await rows.fill(plants=3, others=0)
    held = sorted(rows.secrets)[1]
    async with rows.database.transaction() as db:
        await db.execute("SELECT FROM plant_secret WHERE plant_id = %s FOR UPDATE", (held,))
        running = asyncio.create_task(rewrap(rows.database, BOTH, 2, US))
        async with asyncio.timeout(20):
            while not await waiting_for_a_lock(rows.database):
                await asyncio.sleep(0.01)
        # Its holder changes it: the new secret is what counts.
        fresh = OLD.encrypt(b"fresh", table="plant_secret", column="hmac_secret", row_id=held)
        await db.execute("UPDATE plant_secret SET hmac_secret = %s WHERE plant_id = %s", (fresh, held))
    assert await running == Rewrapped(2, 3, 0, 0)
    async with rows.database.transaction() as db:
        keys = (await load_signing_keys(db, NEW, [held]))[held]
    assert keys is not None
    assert keys.current == b"fresh"


async def test_the_endpoint_counts_and_is_recorded(service: ApiService) -> None:
    await EncryptedRows(service.state.database, STILL_OLD).fill(plants=4, others=2)
    people = People(service)
    admin = await people.person(super_admin=True)
    answer = await people.call("POST", "/internal/crypto/rewrap", {"targetVersion": 2}, who=admin)
    assert (answer.status_code, answer.json()) == (
        200,
        {"targetVersion": 2, "plants": 4, "tradingPartnerConfigs": 2, "failed": 0},
    )
    listed = (await people.call("GET", "/internal/crypto/key-versions", who=admin)).json()
    assert [(one["version"], one["isInKeyring"], one["isCurrent"]) for one in listed] == [(1, True, False), (2, True, True)]
    assert listed[0]["rows"] == 0 < listed[1]["rows"]
    [event] = [event for event in await people.events() if event["event"] == "credentials.rewrapped"]
    assert event["actorId"] == str(admin.id)
    assert event["details"] == {
        "targetVersion": 2,
        "plant_secret": 4,
        "trading_config": 2,
        "partner_key": 2,
        # The service made its own authority at its start, with its newest key.
        "certificate_authority": 0,
        "idempotent_answer": 2,
        "mail": 2,
        "failed": 0,
    }


BAD: list[Any] = [{}, [], {"targetVersion": None}, {"targetVersion": 2, "more": 1}] + [
    {"targetVersion": value} for value in (0, -1, 1.5, "2", True, 3, 2**31, 10**30)
]


async def test_what_is_no_version_of_the_ring_is_refused(service: ApiService) -> None:
    admin = await service.super_admin()
    for body in BAD:
        answer = await service.client.post(PATH, json=body, headers=admin)
        assert refused(answer, 400, "VALIDATION_ERROR"), body
    not_ours = await service.client.post(PATH, json={"targetVersion": 3}, headers=admin)
    assert not_ours.json()["details"] == ["targetVersion: is not in the keyring, which has 1, 2"]


def started(url: str) -> "subprocess.Popen[str]":
    """A process that rewraps everything to version 2."""
    argv = [sys.executable, rewrap_process.__file__, url, f"{ONE},{TWO}", "2"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def killed_in_the_middle(url: str, plants: list[UUID]) -> int:
    """A process that rewraps, and kill -9 once it has done half of the plants; how many that is."""
    done = "SELECT count(*) FROM plant_secret WHERE key_version = 2"
    half = len(plants) // 2
    with psycopg.connect(url, autocommit=True) as watch, psycopg.connect(url) as hold:
        # The other half is held, so it cannot be ready before it is killed.
        hold.execute("SELECT FROM plant_secret WHERE plant_id = ANY(%s) FOR UPDATE", (sorted(plants)[half:],))
        process = started(url)
        deadline = time.monotonic() + 60
        while watch.execute(done).fetchone() != (half,):
            assert time.monotonic() < deadline
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    return half


async def waiting_for_a_lock(database: Database) -> bool:
    async with database.transaction() as db:
        cursor = await db.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
        return await cursor.fetchone() == (True,)


@contextlib.asynccontextmanager
async def reading(work: Any) -> AsyncIterator[None]:
    """Something goes on beside the block, and must not have failed at its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
