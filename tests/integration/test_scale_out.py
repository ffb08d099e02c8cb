"""`gridfleet db scale-out` and `retention` on a server without the extensions."""

import asyncio

import pytest
from typer.testing import CliRunner

from gridfleet.cli.db import commands
from gridfleet.domains.telemetry.hypertables import HYPERTABLES
from gridfleet.domains.telemetry.trial import try_tables
from gridfleet.kernel.db import Database, citus
from gridfleet.kernel.db.scale_out import CannotScaleOut, Step, apply, plan
from support.builders.telemetry_records import RecordedPlant


def test_an_absent_extension_is_named_with_what_to_do(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotScaleOut, match="the server does not have timescaledb: install it"):
        plan(database_url, HYPERTABLES)
    monkeypatch.setenv("GRIDFLEET_DATABASE_URL", database_url)
    result = CliRunner().invoke(commands, ["scale-out", "timescaledb", "--apply"])
    assert result.exit_code == 1
    assert "cannot scale out: the server does not have" in result.output


def test_citus_without_the_extension_changes_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotScaleOut, match="the server does not have citus: install it"):
        citus.plan(database_url, HYPERTABLES)
    assert citus.examine(database_url, HYPERTABLES) is None
    monkeypatch.setenv("GRIDFLEET_DATABASE_URL", database_url)
    result = CliRunner().invoke(commands, ["scale-out", "citus", "--apply"])
    assert result.exit_code == 1
    assert "cannot scale out: the server does not have" in result.output


async def test_the_trial_leaves_only_partitions(database: Database) -> None:
    await try_tables(database)
    async with database.transaction() as db:
        for table in ("telemetry_source", "telemetry_frame", "telemetry_latest", "telemetry_hour"):
            cursor = await db.execute(f"SELECT count(*) FROM {table}")
            assert await cursor.fetchone() == (0,)


async def test_a_step_that_fails_changes_nothing(database: Database) -> None:
    step = Step("try it", ("ALTER TABLE telemetry_frame RENAME TO aside", "SELECT no_such_function()"))
    with pytest.raises(CannotScaleOut, match=r"try it: function no_such_function\(\) does not exist; nothing was changed"):
        await asyncio.to_thread(apply, database.url, [step])
    async with database.transaction() as db:
        await db.execute("SELECT FROM telemetry_frame")


async def test_retention_of_one_organisation(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await RecordedPlant.create(database)
    async with database.transaction() as db:
        cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (plant.organization_id,))
        slug = ((await cursor.fetchone()) or ("",))[0]
    monkeypatch.setenv("GRIDFLEET_DATABASE_URL", database.url)
    result = await asyncio.to_thread(CliRunner().invoke, commands, ["retention", slug, "--raw-days", "30"])
    assert result.exit_code == 0, result.output
    async with database.transaction() as db:
        cursor = await db.execute("SELECT raw_days, minute_days, quarter_days FROM telemetry_retention")
        assert await cursor.fetchall() == [(30, None, None)]
    result = await asyncio.to_thread(CliRunner().invoke, commands, ["retention", "nobody-here"])
    assert result.exit_code == 2
