"""The list of sites with what partners have set there, a site as it was, and how its power followed the orders."""

from datetime import UTC, datetime, timedelta
from itertools import product
from sys import float_info
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from gridfleet.domains.vcp.site_queries import list_sites, read_adherence, read_past
from gridfleet.domains.vcp.sites.models import SiteFilter
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Paging
from support.builders.accounts import add_organization, caller_of
from support.builders.partner_site import PartnerSite
from support.servers.running_task import watched_loop

MINUTE = timedelta(minutes=1)
EVERY_SITE = SiteFilter()
METER = [
    {"key": "energy_imported", "field": "imported", "unit": "kWh", "kind": "counter"},
    {"key": "energy_exported", "field": "exported", "unit": "kWh", "kind": "counter"},
]


def scope(site: PartnerSite, *plants: UUID) -> OrgScope:
    limited = frozenset(plants) if plants else None
    return OrgScope(site.plant.organization_id, OrgRole.VIEWER, caller_of(new_id()), limited)


def step(start: datetime, minutes: int, power_kw: float) -> dict[str, Any]:
    return {"start": start.isoformat(), "durationSeconds": minutes * 60, "powerKw": power_kw}


async def sites(site: PartnerSite, org: OrgScope, now: datetime, wanted: SiteFilter = EVERY_SITE) -> list[Any]:
    async with site.database.transaction() as db:
        page = await list_sites(db, org, wanted, Paging(1, 100), now)
    assert page.meta.total == len(page.data)
    return page.data


async def test_a_site_in_the_list_has_what_its_partner_has_set(site: PartnerSite) -> None:
    now = datetime.now(UTC)
    [found] = await sites(site, scope(site), now)
    assert (found.site_id, found.operating_mode, found.mode_override, found.schedule) == (site.plant.id, "AUTO", None, None)
    steps = [step(now - 10 * MINUTE, 20, 5), step(now + 30 * MINUTE, 10, 7)]
    assert await site.send("schedule.set", scheduleId="s", revision=3, intervals=steps) == "ACCEPTED"
    assert await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60}) == "ACCEPTED"
    [found] = await sites(site, scope(site), now)
    schedule = found.schedule
    assert (schedule.schedule_id, schedule.revision, schedule.power_kw) == ("s", 3, 5)
    assert [schedule.changes_at - now, schedule.ends_at - now] == [10 * MINUTE, 40 * MINUTE]
    [found] = await sites(site, scope(site), now + 15 * MINUTE)
    assert (found.schedule.power_kw, found.schedule.changes_at - now) == (None, 30 * MINUTE)
    [found] = await sites(site, scope(site), now + 41 * MINUTE)
    assert (found.schedule, found.fallback.mode, found.fallback.after_seconds) == (None, "BACKUP", 60)
    end = now + 5 * MINUTE
    assert await site.send("command.mode", mode="CHARGE", expiresAt=end.isoformat()) == "ACCEPTED"
    [found] = await sites(site, scope(site), now)
    assert (found.operating_mode, found.mode_override.expires_at) == ("CHARGE", end)
    [found] = await sites(site, scope(site), end)
    assert (found.operating_mode, found.mode_override) == ("AUTO", None)
    await site.set_site(fallback_since=now)
    [found] = await sites(site, scope(site), end)
    assert (found.operating_mode, found.fallback_since) == ("BACKUP", now)


async def test_sites_are_filtered_like_a_plain_comparison_does(site: PartnerSite) -> None:
    """Every combination of filters over sites with every combination of states, and one without a row."""
    now, expected = datetime.now(UTC), {site.plant.id: (site.plant.id.hex, False, False, False)}
    await site.execute(
        "UPDATE plant SET name = %(name)s, serial_number = 'x' WHERE id = %(plant)s", {"name": site.plant.id.hex}
    )
    states = product(("lasting", "ended", "endless", None), (True, False), ("now", "later", "ended", None))
    for number, (override, falls_back, schedule) in enumerate(states):
        plant_id = new_id()
        await site.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
            " VALUES (%(id)s, %(org)s, %(name)s, %(serial)s, 'GATEWAY', 'MTLS', 'ACTIVE')",
            {"id": plant_id, "name": f"Site_{number}", "serial": f"SN%{number}"},
        )
        ends = {"lasting": now + MINUTE, "ended": now - MINUTE, "endless": None, None: None}[override]
        await site.execute(
            "INSERT INTO vcp_site (plant_id, override_mode, override_set_by, override_set_at, override_expires_at,"
            " fallback_mode, fallback_after_seconds, fallback_since, schedule_id, schedule_revision, schedule_active)"
            " VALUES (%(id)s, %(mode)s, %(by)s, %(at)s, %(ends)s, 'BACKUP', 60, %(since)s, 's', 1, %(active)s)",
            {
                "id": plant_id,
                "mode": override and "CHARGE",
                "by": override and "key",
                "at": override and now,
                "ends": ends,
                "since": now if falls_back else None,
                "active": schedule is not None,
            },
        )
        if schedule is not None:
            start = now + {"now": -MINUTE, "later": MINUTE, "ended": -3 * MINUTE}[schedule]
            await site.execute(
                "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw) VALUES (%(id)s, %(start)s, %(end)s, 1)",
                {"id": plant_id, "start": start, "end": start + 2 * MINUTE},
            )
        in_force = override in ("lasting", "endless")
        expected[plant_id] = (f"Site_{number} SN%{number}", in_force, falls_back, schedule in ("now", "later"))
    for text, *states_wanted in product((None, "SITE_1", "n%2", "_"), *[(None, True, False)] * 3):
        wanted = SiteFilter(text, *states_wanted)
        found = {one.site_id for one in await sites(site, scope(site), now, wanted)}
        assert found == {
            plant_id
            for plant_id, (name, *state) in expected.items()
            if (text is None or text.lower() in name.lower())
            and all(asked in (None, has) for asked, has in zip(states_wanted, state, strict=True))
        }, wanted
    one, two, *_ = expected
    assert {found.site_id for found in await sites(site, scope(site, one, two, new_id()), now)} == {one, two}
    stranger = OrgScope(new_id(), OrgRole.ORG_ADMIN, caller_of(new_id()))
    assert await sites(site, stranger, now) == []


async def test_a_site_as_it_was_has_the_schedule_and_the_plan_of_that_time(site: PartnerSite) -> None:
    now = datetime.now(UTC)
    steps = [step(now + hour * 60 * MINUTE, 60, hour) for hour in (2, 1)]

    async def past(minutes_ago: float) -> Any:
        moment = datetime.now(UTC) - minutes_ago * MINUTE
        async with site.database.transaction() as db:
            return await read_past(db, scope(site), site.plant.id, moment, datetime.now(UTC))

    async def send(minutes_ago: int, answer: str, kind: str, **members: Any) -> None:
        assert await site.send(kind, scheduleId="s", **members) == "ACCEPTED"
        await site.acknowledge_newest(answer)
        await site.execute(
            "UPDATE vcp_command SET created_at = now() - %(age)s WHERE id ="
            " (SELECT id FROM vcp_command WHERE organization_id = %(org)s ORDER BY id DESC LIMIT 1)",
            {"age": minutes_ago * MINUTE},
        )

    assert (await past(0)).schedule is None
    await send(60, "APPLIED", "schedule.set", revision=1, intervals=steps)
    await send(50, "REJECTED", "schedule.set", revision=2, intervals=steps[:1])
    await send(40, "APPLIED", "schedule.set", revision=3, intervals=steps[:1])
    await send(30, "APPLIED", "schedule.cancel")
    await send(20, "APPLIED", "schedule.set", revision=4, intervals=[step(now - 30 * MINUTE, 20, 1)])
    shown = {ago: (await past(ago)).schedule for ago in (61, 59, 49, 39, 29, 19, 5)}
    revisions = {ago: schedule and schedule.revision for ago, schedule in shown.items()}
    assert revisions == {61: None, 59: 1, 49: 1, 39: 3, 29: None, 19: 4, 5: None}
    assert [one.power_kw for one in shown[59].intervals] == [1, 2], "by time"
    assert abs((await past(39)).schedule_set_at - (now - 40 * MINUTE)) < MINUTE / 2
    block = {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}
    for ago, is_error, validates, responds in (
        (60, False, False, True),
        (50, True, False, True),
        (45, False, True, True),
        (44, False, False, False),
        (40, False, False, True),
    ):
        await site.execute(
            "INSERT INTO trading_config_change (organization_id, plant_id, request_code, is_error, validate_only,"
            " config_snapshot, requested_by, sent_at, responded_at)"
            " VALUES (%(org)s, %(plant)s, %(code)s, %(error)s, %(validate)s, %(snapshot)s, %(code)s, %(sent)s, %(responded)s)",
            {
                "code": new_id(),
                "error": is_error,
                "validate": validates,
                "snapshot": Jsonb({"timeConfigs": [block], "version": ago}),
                "sent": now - ago * MINUTE,
                "responded": now if responds else None,
            },
        )
    versions = {ago: (await past(ago)).plan for ago in (61, 59, 49, 41, 39, 0)}
    assert {ago: plan and plan.version for ago, plan in versions.items()} == {61: None, 59: 60, 49: 60, 41: 60, 39: 40, 0: 40}
    assert versions[0].time_configs[0].soc_max == 90


async def test_adherence_compares_the_grids_meter_with_what_the_plant_has_applied(site: PartnerSite) -> None:
    await site.plant.add_device("GRID", METER)
    await site.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %(plant)s AND external_id = 'GRID'")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    await site.plant.bench.take(
        *(
            site.plant.message(
                {
                    "time": (start + minute * MINUTE).isoformat(),
                    "devices": [{"id": "GRID", "fields": {"imported": minute / 10, "exported": 0}}],
                },
                message_id=str(minute),
            )
            for minute in range(0, 61, 5)
        )
    )
    for minute, power_kw, status, seconds in (
        (-30, 5, "APPLIED", {"durationSeconds": 3600}),
        (15, 8, "REJECTED", {}),
        (30, 7, "APPLIED", {}),
    ):
        assert await site.send("command.site-setpoint", powerKw=power_kw, **seconds) == "ACCEPTED"
        await site.acknowledge_newest(status)
        # The first one waits for its plant for half an hour, and lasts from its arrival.
        await site.execute(
            "UPDATE plant_command SET issued_at = %(at)s, finished_at = %(finished)s WHERE id = %(id)s",
            {
                "at": start + minute * MINUTE,
                "finished": start + max(minute, 0) * MINUTE,
                "id": await site.newest(),
            },
        )
    assert await site.send("command.mode", mode="STANDBY", expiresAt=(start + timedelta(hours=5)).isoformat()) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    at = start + 45 * MINUTE
    await site.execute(
        "UPDATE plant_command SET issued_at = %(at)s, finished_at = %(at)s WHERE id = %(id)s",
        {"at": at, "id": await site.newest()},
    )
    now = start + timedelta(hours=2)
    async with site.database.transaction() as db:
        found = await read_adherence(db, scope(site), site.plant.id, start, start + timedelta(hours=1), now)
        ahead = await read_adherence(db, scope(site), site.plant.id, now + MINUTE, now + timedelta(hours=1), now)
        for bad in (timedelta(0), timedelta(hours=49)):
            with pytest.raises(ValidationFailed):
                await read_adherence(db, scope(site), site.plant.id, start - bad, start, now)
        early = datetime(1, 1, 1, tzinfo=UTC)
        old = await read_adherence(db, scope(site), site.plant.id, early, early + timedelta(hours=1), now)
    assert [one.ordered_kw for one in found.quarters] == [5, 5, 7, None]
    assert [one.measured_kw for one in found.quarters] == pytest.approx([6] * 4)
    assert (found.compared_quarters, found.mean_deviation_kw) == (3, pytest.approx(1))
    assert (found.ordered_kwh, found.delivered_kwh) == (pytest.approx(4.25), pytest.approx(4.5))
    assert (ahead.start, ahead.end, ahead.quarters) == (now + MINUTE, now + MINUTE, [])
    assert {one.ordered_kw for one in old.quarters} == {None}


async def test_other_requests_continue_while_many_orders_are_compared(site: PartnerSite) -> None:
    """50,000 commands took a third of a second, in which no other request was answered."""
    now = datetime.now(UTC)
    assert await site.send("command.site-setpoint", powerKw=5) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    await site.execute(
        "INSERT INTO plant_command SELECT (jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(),"
        " 'issued_at', %(at)s::timestamptz - n * interval '3 s', 'finished_at', %(at)s::timestamptz - n * interval '3 s'))).*"
        " FROM plant_command c, generate_series(1, 40000) AS n WHERE c.id = %(id)s",
        {"at": now - 10 * MINUTE, "id": await site.newest()},
    )

    async with watched_loop() as loop, site.database.transaction() as db:
        found = await read_adherence(db, scope(site), site.plant.id, now - timedelta(hours=30), now - 15 * MINUTE, now)

    assert {one.ordered_kw for one in found.quarters} == {5}
    assert loop.longest < 0.2 * loop.total


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_step_is_ordered_until_its_schedule_ends(site: PartnerSite, is_replaced: bool) -> None:
    """The plant drops the step when it applies another schedule, or one without intervals."""
    now = datetime.now(UTC)
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)

    async def apply_at(minute: int) -> None:
        await site.acknowledge_newest("APPLIED")
        await site.execute(
            "UPDATE plant_command SET issued_at = %(at)s, finished_at = %(at)s WHERE id = %(id)s",
            {"at": start + minute * MINUTE, "id": await site.newest()},
        )

    steps = [step(now, 60, 5), step(now + 90 * MINUTE, 60, 7)]
    assert await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps) == "ACCEPTED"
    await apply_at(14)
    assert await site.issue_due() > 0
    await apply_at(15)
    if is_replaced:
        assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=steps[1:]) == "ACCEPTED"
    else:
        assert await site.send("schedule.cancel", scheduleId="s") == "ACCEPTED"
    await apply_at(30)
    ordered = {}
    async with site.database.transaction() as db:
        for minute in (0, 30, 45):
            since, until = start + minute * MINUTE, start + timedelta(hours=1)
            found = await read_adherence(db, scope(site), site.plant.id, since, until, now)
            ordered[minute] = [one.ordered_kw for one in found.quarters]
    assert ordered == {0: [None, 5, None, None], 30: [None, None], 45: [None]}


async def test_the_sums_of_the_largest_powers_are_numbers(site: PartnerSite) -> None:
    await site.plant.add_device("GRID", METER)
    await site.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %(plant)s AND external_id = 'GRID'")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for minute in range(0, 61, 5):
        fields = {"imported": 1.7e308 if minute >= 30 else 0, "exported": 0}
        snapshot = {"time": (start + minute * MINUTE).isoformat(), "devices": [{"id": "GRID", "fields": fields}]}
        await site.plant.bench.take(site.plant.message(snapshot, message_id=str(minute)))
    assert await site.send("command.site-setpoint", powerKw=-1.7e308) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    times = {"at": start, "id": await site.newest()}
    await site.execute("UPDATE plant_command SET issued_at = %(at)s, finished_at = %(at)s WHERE id = %(id)s", times)
    now = start + timedelta(hours=2)
    async with site.database.transaction() as db:
        found = await read_adherence(db, scope(site), site.plant.id, start, start + timedelta(hours=1), now)
    assert [one.measured_kw for one in found.quarters] == [0, float_info.max, 0, 0]
    assert (found.ordered_kwh, found.mean_deviation_kw) == (-float_info.max, float_info.max)


async def test_a_plant_that_moved_shows_no_order_of_its_former_organisation(site: PartnerSite) -> None:
    buyer, now = (await add_organization(site.database)).id, datetime.now(UTC)
    assert await site.send("command.site-setpoint", powerKw=5) == "ACCEPTED"
    await site.acknowledge_newest("APPLIED")
    await site.execute(
        "UPDATE plant_command SET issued_at = %(at)s, finished_at = %(at)s WHERE id = %(id)s",
        {"at": now - 3 * timedelta(hours=1), "id": await site.newest()},
    )
    ordered = []
    for org in (scope(site), OrgScope(buyer, OrgRole.VIEWER, caller_of(new_id()))):
        async with site.database.transaction() as db:
            await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (org.organization_id, site.plant.id))
            found = await read_adherence(db, org, site.plant.id, now - timedelta(hours=2), now - timedelta(hours=1), now)
        ordered.append({one.ordered_kw for one in found.quarters})
    assert ordered == [{5}, {None}]


async def test_foreign_and_hidden_sites_are_forbidden_alike(site: PartnerSite) -> None:
    now = datetime.now(UTC)
    stranger = OrgScope(new_id(), OrgRole.ORG_ADMIN, caller_of(new_id()))
    for org, plant_id in ((scope(site), new_id()), (scope(site, new_id()), site.plant.id), (stranger, site.plant.id)):
        async with site.database.transaction() as db:
            with pytest.raises(Forbidden):
                await read_past(db, org, plant_id, now, now)
            with pytest.raises(Forbidden):
                await read_adherence(db, org, plant_id, now - timedelta(hours=1), now, now)
    async with site.database.transaction() as db:
        with pytest.raises(ValidationFailed):
            await read_past(db, scope(site), site.plant.id, now + MINUTE, now)


async def limit(site: PartnerSite, power: float, now: datetime) -> None:
    assert await site.send("config.constraints", now=now, constraints={"importLimitKw": power}) == "ACCEPTED"


@pytest.mark.parametrize("setpoint", [None, "before", "after"])
async def test_a_step_that_limits_held_back_is_issued_once_they_allow_it(site: PartnerSite, setpoint: str | None) -> None:
    now = datetime.now(UTC)
    interval = {"start": (now + timedelta(seconds=60)).isoformat(), "durationSeconds": 900, "powerKw": 20}
    assert await site.send("schedule.set", now=now, scheduleId="s", revision=1, intervals=[interval]) == "ACCEPTED"
    await limit(site, 10, now)
    if setpoint == "before":
        await site.send("command.site-setpoint", now=now, powerKw=2)
    assert await site.issue_due(now=now + timedelta(seconds=61)) == 1, "the step is skipped"
    if setpoint == "after":
        await site.send("command.site-setpoint", now=now + timedelta(seconds=90), powerKw=2)
    for seconds, power in ((100, 15), (120, 30), (130, 40)):
        later = now + timedelta(seconds=seconds)
        await limit(site, power, later)
        assert await site.issue_due(now=later) == (power == 30 and setpoint != "after")
    powers = [content["powerKw"] for kind, content, _ in await site.commands() if kind == "SITE_SETPOINT"]
    assert powers == {None: [20], "before": [2, 20], "after": [2]}[setpoint]
