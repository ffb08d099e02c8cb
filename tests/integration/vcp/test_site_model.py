"""A site against a plain model: orders, answers, absences and time in any order.

The model knows the rules in one sentence each: the newest mode order that the plant has not refused holds until its end, then
the fallback, then AUTO; the newest schedule order that the plant has not refused holds until its last interval is over. An
order that the plant has applied is not refused with its repetition. A plant that is connected and takes everything ends in
what holds.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from gridfleet.domains.vcp.site_queries import read_configuration
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.pool import open_database
from gridfleet.kernel.ids import new_id
from support.builders.partner_commands import order
from support.builders.partner_site import PartnerSite, partner_site

AFTER = 900
"""Seconds of silence before the fallback."""

STOP = "EMERGENCY_STOP"
MINUTES = st.sampled_from([1, 5, 14, 61, 300, 1500, 3000])


@dataclass
class Ordered:
    """An accepted order; `end` is when what it sets is over, None: never."""

    command_id: UUID
    what: Any
    end: datetime | None
    refused: bool = False
    applied: bool = False


@dataclass
class Plant:
    """What a plant has carried out. None: unknown."""

    mode: str | None = "AUTO"
    schedule: int | None = None
    obeyed: set[UUID] = field(default_factory=set)


class SiteMachine(RuleBasedStateMachine):
    """One site, its partner and its plant, on a clock of their own."""

    database: Database
    runner: asyncio.Runner

    @initialize()
    def open(self) -> None:
        self.site: PartnerSite = self.runner.run(partner_site(self.database))
        self.runner.run(self.site.execute("DELETE FROM plant WHERE id <> %(plant)s"))  # the scheduler looks at all sites
        self.now = datetime.now(UTC) + timedelta(hours=1)  # connections are seen at the real time, which must lie behind
        self.modes: list[Ordered] = []
        self.schedules: list[Ordered] = []
        self.setpoint: Ordered | None = None
        self.last_command_at = self.now
        self.fallen = False
        self.plant = Plant()
        self.revision = 0
        user = UserCaller(new_id(), new_id(), "viewer@example.com", "Viewer", False, None)
        self.org = OrgScope(self.site.plant.organization_id, OrgRole.VIEWER, user)
        self.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": AFTER})

    # What the partner does

    def send(self, kind: str, **members: Any) -> UUID | None:
        """Send an order now. Return its command's id if it was accepted."""
        self.now += timedelta(milliseconds=10)
        offset = (self.now - datetime.now(UTC)).total_seconds()
        issued = {"issuedAt": self.now.isoformat()}
        message = order(kind, self.site.plant.id, slug=self.site.sender.key.slug, age=-offset, **issued | members)
        answer = self.runner.run(self.site.take(message, now=self.now))
        self.last_command_at = max(self.last_command_at, self.now)
        stopped = self.mode() == STOP
        assert answer == ("REJECTED" if stopped and members.get("mode") != "AUTO" else "ACCEPTED")
        if answer == "REJECTED":
            return None
        self.fallen = False
        [(found,)] = self.runner.run(self.site.rows("SELECT id FROM vcp_command ORDER BY id DESC LIMIT 1"))
        assert isinstance(found, UUID)
        return found

    @rule(mode=st.sampled_from(["CHARGE", "STANDBY", "DISCHARGE"]), minutes=MINUTES)
    def order_mode(self, mode: str, minutes: int) -> None:
        end = self.now + timedelta(minutes=minutes)
        if command_id := self.send("command.mode", mode=mode, expiresAt=end.isoformat()):
            self.modes.append(Ordered(command_id, mode, end))

    @rule()
    def stop(self) -> None:
        if command_id := self.send("command.mode", mode=STOP):
            self.modes.append(Ordered(command_id, STOP, None))

    @rule()
    def order_auto(self) -> None:
        command_id = self.send("command.mode", mode="AUTO")
        assert command_id is not None
        self.modes.append(Ordered(command_id, "AUTO", None))
        self.setpoint = None

    @rule(begins=MINUTES, minutes=MINUTES)
    def order_schedule(self, begins: int, minutes: int) -> None:
        self.revision += 1
        start = self.now + timedelta(minutes=begins - 5)
        step = {"start": start.isoformat(), "durationSeconds": minutes * 60 + 300, "powerKw": 1}
        if command_id := self.send("schedule.set", scheduleId="s", revision=self.revision, intervals=[step]):
            self.schedules.append(Ordered(command_id, self.revision, start + timedelta(minutes=minutes + 5)))

    @precondition(lambda self: self.schedule() is not None)
    @rule()
    def cancel_schedule(self) -> None:
        if command_id := self.send("schedule.cancel", scheduleId="s"):
            self.schedules.append(Ordered(command_id, None, None))

    @rule(minutes=MINUTES)
    def order_setpoint(self, minutes: int) -> None:
        if command_id := self.send("command.site-setpoint", powerKw=2, durationSeconds=minutes * 60):
            self.setpoint = Ordered(command_id, 2, self.now + timedelta(minutes=minutes))

    # Time

    @rule(minutes=MINUTES)
    def pass_time(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)
        self.work()

    def work(self) -> None:
        """Do what the service does each second."""
        self.now += timedelta(milliseconds=10)
        override, schedule = self.override(), self.newest(self.schedules)
        for one in (override, schedule):
            if one is not None and one.end is not None and one.end <= self.now:
                self.last_command_at = max(self.last_command_at, one.end)
                if one is override:
                    self.setpoint = None
                    one.what = "AUTO"
                else:
                    one.what = None
        self.runner.run(self.site.expire(now=self.now))
        self.lose_setpoint()
        busy = self.override() is not None or self.schedule() is not None
        if self.setpoint is not None and self.setpoint.end is not None:
            speaks = max(self.last_command_at, self.setpoint.end)
        else:
            speaks = self.last_command_at
        if not busy and self.now >= speaks + timedelta(seconds=AFTER):
            self.fallen = True
        while self.runner.run(self.site.issue_due(now=self.now)):
            pass

    def lose_setpoint(self, *, to_step: bool = False) -> None:
        """Go back to the setpoint that the plant still has if the newest one came to nothing, or a step took its place."""
        if self.setpoint is None:
            return
        rows = self.runner.run(
            self.site.rows(
                "SELECT id, type, instruction, issued_at FROM plant_command WHERE plant_id = %(plant)s"
                " AND status NOT IN ('EXPIRED', 'REJECTED', 'FAILED') ORDER BY issued_at, id"
            )
        )
        if to_step or all(one[0] != self.setpoint.command_id for one in rows):
            self.setpoint = None
            powers = [one for one in rows if one[1] in ("SITE_SETPOINT", "MODE_CHANGE", "EMERGENCY")]
            if powers and powers[-1][1] == "SITE_SETPOINT" and "schedule" not in powers[-1][2]:
                command_id, _, content, issued_at = powers[-1]
                end = issued_at + timedelta(seconds=content["params"]["durationSeconds"])
                self.setpoint = Ordered(command_id, content["powerKw"], end)

    # What the plant does

    def delivered(self) -> list[tuple[Any, ...]]:
        """Commands that the broker would hand to the plant now, in their order."""
        while self.runner.run(self.site.send_commands(now=self.now)):
            pass
        rows = self.runner.run(
            self.site.rows(
                "SELECT id, type, instruction, requester_type, expires_at FROM plant_command"
                " WHERE plant_id = %(plant)s AND status IN ('SENT', 'RECEIVED') ORDER BY issued_at, id"
            )
        )
        return [one for one in rows if one[4] > self.now]

    def answer(self, command: tuple[Any, ...], status: str) -> None:
        command_id, kind, content, requester, _ = command
        mode = content.get("mode")
        if self.plant.mode == STOP and mode not in ("AUTO", STOP):
            status = "REJECTED"
        if status == "FAILED" and mode is not None:
            self.plant.mode = None
        if status == "APPLIED" and mode is not None:
            self.plant.mode = mode
        if status == "APPLIED" and kind == "SCHEDULE":
            self.plant.schedule = content["schedule"]["revision"] if content["schedule"]["intervals"] else None
        expected = self.runner.run(self.site.rows("SELECT command_id, kind FROM vcp_unconfirmed WHERE plant_id = %(plant)s"))
        repeats = requester == "SYSTEM" and (command_id, "SCHEDULE" if kind == "SCHEDULE" else "MODE") in expected
        repeated = self.repeated(kind, content) if repeats else None
        self.runner.run(self.site.acknowledge({command_id: status}, now=self.now))
        for one in (*self.modes, *self.schedules):
            if one.command_id == command_id or one is repeated:
                one.applied = one.applied or status == "APPLIED"
                one.refused = one.refused or (status in ("REJECTED", "FAILED") and one.what != STOP and not one.applied)
        self.lose_setpoint(to_step=status == "APPLIED" and (command_id, "STEP") in expected)

    def repeated(self, kind: str, content: dict[str, Any]) -> Ordered | None:
        """Return the order that a command of the service repeats."""
        if "mode" in content:
            override = self.override()
            return override if override is not None and override.what == content["mode"] else None
        return self.newest(self.schedules) if kind == "SCHEDULE" else None

    @rule(status=st.sampled_from(["RECEIVED", "APPLIED", "APPLIED", "REJECTED", "FAILED"]))
    def answer_one(self, status: str) -> None:
        """The plant connects for a moment and answers the first command. It refuses no setpoint of the service itself."""
        if commands := self.delivered():
            is_own_setpoint = commands[0][1] == "SITE_SETPOINT" and commands[0][3] == "SYSTEM"
            self.answer(commands[0], "APPLIED" if is_own_setpoint and status != "RECEIVED" else status)

    @rule()
    def settle(self) -> None:
        """The plant stays connected and takes everything."""
        self.work()
        self.runner.run(self.site.acknowledge({}, now=self.now, connects=True))
        self.now += timedelta(seconds=30)  # until what the plant has just refused is issued again
        for _ in range(50):
            self.work()
            commands = self.delivered()
            if not commands:
                break
            for command in commands:
                self.answer(command, "APPLIED")
        else:
            raise AssertionError("the service issues commands without end")
        assert self.plant.mode == self.mode()
        if self.mode() != STOP:
            assert self.schedule() is None or self.plant.schedule == self.schedule()

    # The model

    @staticmethod
    def newest(orders: list[Ordered]) -> Ordered | None:
        return next((one for one in reversed(orders) if not one.refused), None)

    def override(self) -> Ordered | None:
        found = self.newest(self.modes)
        return None if found is None or found.what == "AUTO" else found

    def mode(self) -> str:
        override = self.override()
        if override is not None and (override.end is None or self.now < override.end):
            return str(override.what)
        return "BACKUP" if self.fallen else "AUTO"

    def schedule(self) -> int | None:
        found = self.newest(self.schedules)
        if found is None or found.what is None or found.end is None or found.end <= self.now:
            return None
        return int(found.what)

    @invariant()
    def the_site_reads_as_the_model_says(self) -> None:
        if not hasattr(self, "org"):
            return

        async def read() -> Any:
            async with self.database.transaction() as db:
                return await read_configuration(db, self.org, self.site.plant.id, self.now)

        found = self.runner.run(read())
        assert found.operating_mode == self.mode()
        assert (found.active_schedule and found.active_schedule.revision) == self.schedule()


def test_a_site_is_what_its_model_says(database_url: str) -> None:
    async def opened() -> tuple[Any, Database]:
        context = open_database(database_url, name="model", size=3)
        return context, await context.__aenter__()

    with asyncio.Runner() as runner:
        context, database = runner.run(opened())
        machine = type("Machine", (SiteMachine,), {"database": database, "runner": runner})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(max_examples=15, stateful_step_count=20, suppress_health_check=list(HealthCheck)),
            )
        finally:
            runner.run(context.__aexit__(None, None, None))
