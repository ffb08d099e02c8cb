"""Plans sent to the ESM are kept for a time, and the newest accepted one of each plant for ever."""

from gridfleet.kernel.db.jobs import defer
from support.clients.plants_over_http import Fleet
from support.servers.postbox import work_off


async def send(fleet: Fleet, plant: str, message: str, days: int, *, rows: int = 1, **columns: bool) -> None:
    """Insert plans that were sent `days` ago: accepted by the ESM, unless `columns` differ."""
    found = {"is_error": False, "validate_only": False, "answered": True, **columns}
    await fleet.sql(
        "INSERT INTO trading_config_change (organization_id, plant_id, request_code, message, is_error, validate_only,"
        " config_snapshot, requested_by, sent_at, responded_at) SELECT organization_id, id, gen_random_uuid(), %s, %s, %s,"
        " '{}', gen_random_uuid(), now() - make_interval(days => %s), CASE WHEN %s THEN now() END"
        " FROM plant, generate_series(1, %s) WHERE id = %s",
        message,
        found["is_error"],
        found["validate_only"],
        days,
        found["answered"],
        rows,
        plant,
    )


async def test_old_plans_are_deleted_except_the_newest_accepted_one_of_each_plant(fleet: Fleet) -> None:
    state = fleet.service.state
    days = state.settings.command_days
    quiet = str((await fleet.plant(serialNumber="quiet"))["id"])
    busy = str((await fleet.plant(serialNumber="busy"))["id"])
    for plant in (quiet, busy):
        await send(fleet, plant, "old, replaced", days + 3)
        await send(fleet, plant, "old", days + 2)
        await send(fleet, plant, "refused", days + 1, rows=12_000, is_error=True)
        await send(fleet, plant, "checked", days + 1, validate_only=True)
        await send(fleet, plant, "unanswered", days + 1, answered=False)
    await send(fleet, quiet, "refused lately", days - 1, is_error=True)
    await send(fleet, quiet, "unanswered lately", days - 1, answered=False)
    await send(fleet, busy, "accepted lately", days - 1)
    await send(fleet, busy, "accepted last", 0)

    async with state.database.transaction() as db:
        await defer(db, "trading.delete_old_plans", {"timestamp": 0})
    await work_off(state)

    kept = await fleet.sql("SELECT plant_id::text, message, count(*) FROM trading_config_change GROUP BY 1, 2, plant_id")
    assert sorted(kept) == sorted(
        [
            (quiet, "old", 1),
            (quiet, "refused lately", 1),
            (quiet, "unanswered lately", 1),
            (busy, "accepted lately", 1),
            (busy, "accepted last", 1),
        ]
    )
