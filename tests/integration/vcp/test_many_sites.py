"""Many sites at which something is due at the same time."""

from datetime import UTC, datetime

import pytest

from gridfleet.domains.vcp.scheduler import issue_due_commands
from gridfleet.kernel.db import Database
from support.builders.partner_site import PartnerSite, partner_site
from support.clients.executed_statements import executed_statements

SITES = 20
DUE = {
    "a step": (
        "INSERT INTO vcp_site (plant_id, schedule_active, schedule_id, schedule_revision) SELECT id, true, 's', 1 FROM plant",
        "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw)"
        " SELECT id, now() - interval '1 s', now() + interval '1 hour', 2 FROM plant",
    ),
    "the end of a mode": (
        "INSERT INTO vcp_site (plant_id, override_mode, override_set_by, override_set_at, override_expires_at)"
        " SELECT id, 'CHARGE', 'partner', now() - interval '1 hour', now() - interval '1 s' FROM plant",
    ),
    "a fallback": (
        "INSERT INTO vcp_site (plant_id, fallback_mode, fallback_after_seconds, silent_from)"
        " SELECT id, 'BACKUP', 60, now() - interval '61 s' FROM plant",
    ),
}
COPIES = (
    "INSERT INTO plant SELECT copy.* FROM plant p, generate_series(2, {}) number, LATERAL jsonb_populate_record(p,"
    " jsonb_build_object('id', gen_random_uuid(), 'serial_number', number::text)) copy"
)


@pytest.mark.parametrize("what", DUE)
async def test_what_is_due_at_sites_is_issued_together(database: Database, what: str) -> None:
    """Two statements or more for each site took 1 to 3 ms, and the other sites waited for ten thousand."""
    taken = []
    site: PartnerSite = await partner_site(database)
    for count in (1, SITES):
        await site.execute("DELETE FROM vcp_site")
        await site.execute("DELETE FROM plant_command")
        await site.execute(COPIES.format(count))
        for statement in DUE[what]:
            await site.execute(statement)
        with executed_statements() as statements:
            await site.issue_due()
        taken.append(statements)
        assert await site.rows("SELECT count(DISTINCT plant_id), count(*) FROM plant_command") == [(count, count)]
        [(expected,)] = await site.rows(
            "SELECT count(*) FROM vcp_unconfirmed u JOIN plant_command c ON c.id = u.command_id AND c.plant_id = u.plant_id"
            " WHERE u.due_at IS NULL"
        )
        assert expected == count
    assert taken[0] == taken[1]


async def test_steps_of_many_sites_are_claimed_at_once(database: Database) -> None:
    """All schedules are searched before each claim. With 200 steps in each, those of 10,000 sites took eight seconds."""
    site: PartnerSite = await partner_site(database)
    await site.execute(COPIES.format(600))
    for statement in DUE["a step"]:
        await site.execute(statement)
    async with site.database.transaction() as db:
        assert await issue_due_commands(db, datetime.now(UTC)) == 600
    assert await site.rows("SELECT count(DISTINCT plant_id), count(*) FROM plant_command") == [(600, 600)]


async def test_what_is_due_is_found_without_reading_all_steps_of_long_schedules(database: Database) -> None:
    """The scheduler looks each second. With schedules of a week, 1,500 sites took three seconds, in which all others waited."""
    site: PartnerSite = await partner_site(database)
    await site.execute(COPIES.format(SITES))
    await site.execute(
        "INSERT INTO vcp_site (plant_id, schedule_active, schedule_id, schedule_revision, setpoint_ends_at)"
        " SELECT id, true, 's', 1, now() - interval '1 day' FROM plant"
    )
    await site.execute(
        "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw, done_at) SELECT id, now() + n * interval '15 min',"
        " now() + (n + 1) * interval '15 min', 1, CASE WHEN n <= 0 THEN now() END FROM plant, generate_series(-600, 1) AS n"
    )
    async with site.database.autocommit() as db:
        await db.execute("VACUUM ANALYZE vcp_interval")
    async with site.database.transaction() as db:
        assert await issue_due_commands(db, datetime.now(UTC)) == 0
        cursor = await db.execute(
            "SELECT sum(pg_stat_get_xact_tuples_fetched(oid) + pg_stat_get_xact_tuples_returned(oid)) FROM pg_class"
            " WHERE relname LIKE 'vcp_interval%'"
        )
        [(read,)] = await cursor.fetchall()
    assert read <= 20 * SITES
