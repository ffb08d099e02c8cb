"""Orders from the message to the log, the plant's command and the partner's acks."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.plants.commands.models import CommandReason
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.domains.vcp.intake import refuse_unstorable, take_command
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.kernel.ids import new_id
from support.builders.partner_commands import body_of, order, sending_key, signed, soon
from support.builders.partner_site import PartnerSite


def interval(seconds: float, length: int = 900, power: float = 1) -> dict[str, Any]:
    start = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"start": start.isoformat(), "durationSeconds": length, "powerKw": power}


async def test_a_setpoint_is_relayed_and_followed_to_its_end(site: PartnerSite) -> None:
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=-7.5, correlationId="c-1")
    assert await site.take(message) == "ACCEPTED"

    assert await site.commands() == [("SITE_SETPOINT", {"powerKw": -7.5}, "PENDING")]
    await site.acknowledge_newest("RECEIVED")
    assert await site.log() == [("RECEIVED", "ACCEPTED", None, True)]
    await site.acknowledge_newest("APPLIED")
    assert await site.log() == [("APPLIED", "APPLIED", None, True)]
    first, last = await site.received()
    assert (first["ackStatus"], first["status"], last["ackStatus"], last["status"]) == (
        "ACCEPTED",
        "PENDING",
        "APPLIED",
        "APPLIED",
    )
    assert last["correlationId"] == "c-1"
    assert (last["siteId"], last["commandType"]) == (str(site.plant.id), "SITE_SETPOINT")
    assert "rejectionReason" not in last
    assert first["eventId"] != last["eventId"]
    [(executed,)] = await site.rows("SELECT executed_at IS NOT NULL FROM vcp_command")
    assert executed


async def test_a_plant_that_refuses_is_reported_so(site: PartnerSite) -> None:
    await site.send("command.device.BAT1", action="set_power", params={"power_kw": 2})
    assert (await site.commands())[0][1] == {"action": "set_power", "params": {"power_kw": 2}}
    await site.acknowledge_newest("REJECTED", CommandReason("EMPTY", "no charge"))
    assert await site.log() == [("REJECTED", "REJECTED", "PLANT_REJECTED", True)]
    assert (await site.received())[-1]["rejectionReason"] == "PLANT_REJECTED"


async def test_a_repeated_message_does_nothing_twice(site: PartnerSite) -> None:
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
    assert [await site.take(message), await site.take(message._replace(redelivered=True))] == ["ACCEPTED", "ACCEPTED"]
    await site.acknowledge_newest("APPLIED")
    assert await site.take(message) == "APPLIED"

    assert len(await site.commands()) == len(await site.log()) == 1
    acknowledgements = await site.received()
    assert [one["ackStatus"] for one in acknowledgements] == ["ACCEPTED", "ACCEPTED", "APPLIED", "APPLIED"]
    assert acknowledgements[0] == acknowledgements[1]
    assert acknowledgements[2] == acknowledgements[3], "sent again with the same id"


async def test_a_message_id_belongs_to_one_message(site: PartnerSite) -> None:
    slug, content = site.sender.key.slug, body_of(site.plant.id, powerKw=1)
    await site.take(signed(f"{slug}.command.site-setpoint", content))
    await site.take(signed(f"{slug}.command.site-setpoint", content | {"powerKw": 2}))
    upper = content | {"messageId": content["messageId"].upper()}
    await site.take(signed(f"{slug}.command.site-setpoint", upper))

    assert await site.log() == [
        ("PENDING", "ACCEPTED", None, True),
        ("REJECTED", "REJECTED", "DUPLICATE", False),
        ("REJECTED", "REJECTED", "DUPLICATE", False),
    ]
    assert len(await site.commands()) == 1


async def test_a_refused_message_does_not_use_its_id_up_for_another_key(site: PartnerSite) -> None:
    slug = site.sender.key.slug
    other = sending_key(site.sender.key.organization_id, slug=slug, plant_ids=[new_id()])
    message = order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1)
    blocking = signed(message.routing_key, json.loads(message.body) | {"powerKw": 2})
    for one in (blocking, message):
        assert await site.take(one, sender=other) == "REJECTED"
    assert await site.take(message) == await site.take(message) == "ACCEPTED"
    assert await site.take(message, sender=other) == "ACCEPTED", "it is the same message"
    assert await site.take(blocking, sender=other) == "REJECTED"
    assert await site.log() == [
        ("REJECTED", "REJECTED", "SITE_NOT_ALLOWED", False),
        ("REJECTED", "REJECTED", "DUPLICATE", False),
        ("PENDING", "ACCEPTED", None, True),
        ("REJECTED", "REJECTED", "DUPLICATE", False),
    ]
    assert len(await site.commands()) == 1


async def test_a_message_id_that_ends_with_a_line_break_is_refused(site: PartnerSite) -> None:
    """It would be accepted without being recognised when the broker delivers it again."""
    slug, content = site.sender.key.slug, body_of(site.plant.id, powerKw=1)
    message = signed(f"{slug}.command.site-setpoint", content | {"messageId": content["messageId"] + "\n"})
    assert [await site.take(message), await site.take(message._replace(redelivered=True))] == ["REJECTED", "REJECTED"]
    assert await site.log() == [("REJECTED", "REJECTED", "MALFORMED", False)]
    assert await site.commands() == []


@pytest.mark.parametrize("name", ["correlationId", "scheduleId"])
async def test_a_text_that_ends_with_a_line_break_is_refused(site: PartnerSite, name: str) -> None:
    members = {"scheduleId": "s-1", "revision": 1, "intervals": [interval(60)]} | {name: "s-1\n"}
    assert await site.send("schedule.set", **members) == "MALFORMED"


async def test_a_failed_signature_does_not_use_its_id_up(site: PartnerSite) -> None:
    slug, content = site.sender.key.slug, body_of(site.plant.id, mode="AUTO")
    forged = signed(f"{slug}.command.mode", content, key=bytes(32))
    await site.take(forged)
    await site.take(forged._replace(redelivered=True))
    await site.take(signed(f"{slug}.command.mode", content, age=3600))
    await site.take(signed(f"{slug}.command.mode", content))

    assert [entry[1:] for entry in await site.log()] == [
        ("REJECTED", "SIGNATURE_INVALID", False),
        ("REJECTED", "TIMESTAMP_OUT_OF_WINDOW", False),
        ("ACCEPTED", None, True),
    ]
    assert len(await site.received()) == 3


async def test_the_same_message_taken_by_two_processes_counts_once(site: PartnerSite) -> None:
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
    outcomes = await asyncio.gather(*(site.take(message) for _ in range(4)), return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, BaseException)]
    assert all(isinstance(one, psycopg.errors.UniqueViolation) for one in refused)
    assert len(await site.commands()) == len(await site.log()) == 1


async def test_sites_that_may_not_be_commanded(site: PartnerSite) -> None:
    organization, slug = site.sender.key.organization_id, site.sender.key.slug
    limited = sending_key(organization, slug=slug, plant_ids=[new_id()])
    foreign = sending_key(slug=slug)
    for sender, where, reason in (
        (site.sender, new_id(), "SITE_UNKNOWN"),
        (site.sender, "plant-7", "SITE_UNKNOWN"),
        (limited, site.plant.id, "SITE_NOT_ALLOWED"),
    ):
        await site.take(order("command.site-setpoint", where, slug=slug, powerKw=1), sender=sender)
        assert (await site.log())[-1][2] == reason
    for lifecycle in ("SUSPENDED", "DECOMMISSIONED", "PENDING"):
        await site.execute("UPDATE plant SET lifecycle_status = %(life)s WHERE id = %(plant)s", {"life": lifecycle})
        assert await site.send("command.site-setpoint", powerKw=1) == "SITE_SUSPENDED"
    assert await site.commands() == []
    async with site.database.transaction() as db:
        await db.execute(
            "INSERT INTO organization (id, name, slug) VALUES (%s, 'Other', %s)", (foreign.key.organization_id, new_id().hex)
        )
    await site.take(order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1), sender=foreign)
    assert await site.rows("SELECT rejection_reason, plant_id FROM vcp_command WHERE organization_id <> %(org)s") == [
        ("SITE_UNKNOWN", None)
    ]


async def test_device_commands_are_weighed_against_the_template(site: PartnerSite) -> None:
    assert await site.send("command.device.BAT9", action="stop") == "DEVICE_UNKNOWN"
    assert await site.send("command.device.BAT1", action="fly") == "ACTION_NOT_IN_TEMPLATE"
    assert await site.send("command.device.BAT1", action="set_power", params={"power_kw": 11}) == "PARAMS_INVALID"
    assert await site.send("command.device.BAT1", action="set_power") == "PARAMS_INVALID"
    assert await site.send("command.device", deviceId="BAT1", action="stop") == "ACCEPTED"


async def test_limits_hold_from_the_moment_they_are_set(site: PartnerSite) -> None:
    assert await site.send("config.constraints", constraints={"importLimitKw": 5, "chargeMaxKw": 2}) == "ACCEPTED"
    assert await site.send("command.site-setpoint", powerKw=5.1) == "CONSTRAINT_VIOLATED"
    assert await site.send("command.site-setpoint", powerKw=-50) == "ACCEPTED"
    assert await site.send("config.constraints", constraints={"importLimitKw": None}) == "ACCEPTED"
    assert await site.send("command.site-setpoint", powerKw=5.1) == "ACCEPTED"
    assert (await site.commands())[0][:2] == (
        "CONFIG",
        {
            "params": {
                "constraints": {
                    "importLimitKw": 5.0,
                    "exportLimitKw": None,
                    "chargeMaxKw": 2.0,
                    "dischargeMaxKw": None,
                    "socMinPct": None,
                    "socMaxPct": None,
                }
            }
        },
    )


async def test_an_emergency_stop_comes_before_everything_and_stays(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=1)
    assert await site.send("command.mode", mode="EMERGENCY_STOP") == "ACCEPTED"
    assert await site.rows("SELECT expires_at <= now() FROM plant_command WHERE type = 'SITE_SETPOINT'") == [(True,)]
    assert (await site.commands())[1][:2] == ("EMERGENCY", {"mode": "EMERGENCY_STOP"})
    await site.acknowledge_newest("FAILED")
    assert await site.send("command.site-setpoint", powerKw=1) == "EMERGENCY_STOP_ACTIVE"
    assert await site.send("command.mode", mode="AUTO") == "ACCEPTED"
    assert await site.send("command.site-setpoint", powerKw=1) == "ACCEPTED"


async def test_what_an_offline_plant_was_sent_before_an_emergency_stop_is_not_sent_after_it(site: PartnerSite) -> None:
    await site.send("command.site-setpoint", powerKw=1, expiresAt=soon(3600))
    setpoint = await site.newest()
    # The broker holds a copy for the plant, which is away and acknowledges nothing.
    await site.send_commands()
    assert (await site.commands())[0][2] == "SENT"
    await site.send("command.mode", mode="EMERGENCY_STOP")
    stop = await site.newest()
    assert await site.send_commands(seconds=1) == [stop]
    assert setpoint not in await site.send_commands(seconds=180), "a newer copy would come after the emergency stop"
    async with site.database.transaction() as db:
        await expire_due(db, datetime.now(UTC), follow_commands)
    assert [entry[:2] for entry in await site.log()] == [("EXPIRED", "EXPIRED"), ("SENT", "ACCEPTED")]


async def test_an_override_ends_by_itself_and_once(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    assert (await site.site("override_mode"))[0] == "STANDBY"
    assert await site.issue_due(59) == 0
    assert [await site.issue_due(61), await site.issue_due(61)] == [1, 0]
    assert (await site.site("override_mode"))[0] is None
    assert [command[:2] for command in await site.commands()] == [
        ("MODE_CHANGE", {"mode": "STANDBY"}),
        ("MODE_CHANGE", {"mode": "AUTO"}),
    ]


async def test_an_override_that_the_plant_refuses_is_withdrawn(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(60))
    await site.acknowledge_newest("REJECTED")
    assert (await site.site("override_mode"))[0] is None


async def test_a_schedule_steps_on_in_time_and_once(site: PartnerSite) -> None:
    steps = [interval(-10, 70, 1), interval(100, 60, 2), interval(160, 60, 3)]
    assert await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps) == "ACCEPTED"
    done = [await site.issue_due(second) for second in (0, 0, 90, 105, 105, 165, 165)]
    assert done == [1, 0, 0, 1, 0, 1, 0]
    setpoints = [content for kind, content, _ in await site.commands() if kind == "SITE_SETPOINT"]
    assert [one["powerKw"] for one in setpoints] == [1, 2, 3]
    assert [one["params"]["durationSeconds"] for one in setpoints] == pytest.approx([60, 55, 55], abs=2)
    assert setpoints[0]["schedule"] == {"scheduleId": "s", "revision": 1}
    assert (await site.site("schedule_active"))[0]
    assert await site.issue_due(400) > 0
    assert not (await site.site("schedule_active"))[0]


async def test_steps_missed_or_beyond_the_limits_are_passed_over(site: PartnerSite) -> None:
    steps = [interval(0, 10, 1), interval(10, 10, 9), interval(20, 10, 2)]
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=steps)
    await site.send("config.constraints", constraints={"importLimitKw": 5})
    await site.issue_due(15)
    await site.issue_due(25)
    assert [content["powerKw"] for kind, content, _ in await site.commands() if kind == "SITE_SETPOINT"] == [2]


async def test_an_override_holds_a_schedule_up(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[interval(0, 100, 4)])
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(30))
    assert await site.issue_due(5) == 0
    await site.issue_due(31)
    assert [kind for kind, _, _ in await site.commands()] == ["SCHEDULE", "MODE_CHANGE", "MODE_CHANGE", "SITE_SETPOINT"]
    [(apart,)] = await site.rows("SELECT count(DISTINCT issued_at) = 4 FROM plant_command")
    assert apart, "commands leave in the order of their issue; AUTO after the setpoint would undo it"


async def test_a_step_that_an_override_interrupted_goes_on_after_it(site: PartnerSite) -> None:
    """The plant has forgotten its setpoint: the mode took its place."""
    await site.send("schedule.set", scheduleId="s", revision=1, intervals=[interval(-10, 3600, 4), interval(3590, 900, 5)])
    assert await site.issue_due() == 1
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(30))
    assert await site.issue_due(29) == 0
    await site.issue_due(31)
    assert [await site.issue_due(32), await site.issue_due(33)] == [0, 0]
    own = await site.rows(
        "SELECT coalesce(instruction->>'mode', instruction->>'powerKw') FROM plant_command"
        " WHERE requester_type = 'SYSTEM' ORDER BY issued_at"
    )
    assert own == [("4.0",), ("AUTO",), ("4.0",)]
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    await site.send("command.mode", mode="AUTO")
    assert [await site.issue_due(34), await site.issue_due(35)] == [1, 0]
    await site.send("command.mode", mode="AUTO")
    assert [await site.issue_due(36), await site.issue_due(37)] == [1, 0], (
        "the plant drops its setpoint when it receives any mode"
    )
    assert len([kind for kind, _, _ in await site.commands() if kind == "SITE_SETPOINT"]) == 4
    assert await site.rows("SELECT done_at IS NULL FROM vcp_interval WHERE plant_id = %(plant)s ORDER BY start_at") == [
        (False,),
        (True,),
    ]


async def test_schedules_are_replaced_and_cancelled(site: PartnerSite) -> None:
    first, second = [interval(0, 100, 1)], [interval(0, 100, 2)]
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=first) == "ACCEPTED"
    assert await site.send("schedule.set", scheduleId="s", revision=2, intervals=second) == "SCHEDULE_INVALID"
    assert await site.send("schedule.set", scheduleId="s", revision=3, intervals=second) == "ACCEPTED"
    assert await site.rows("SELECT power_kw FROM vcp_interval") == [(2.0,)]
    assert await site.send("schedule.cancel", scheduleId="t") == "SCHEDULE_INVALID"
    assert await site.send("schedule.cancel", scheduleId="s") == "ACCEPTED"
    assert await site.issue_due(5) == 0
    assert (await site.commands())[-1][:2] == ("SCHEDULE", {"schedule": {"scheduleId": "s", "revision": 3, "intervals": []}})


async def test_a_schedule_that_the_plant_refuses_is_withdrawn(site: PartnerSite) -> None:
    await site.send("schedule.set", scheduleId="s", revision=2, intervals=[interval(0, 100, 1)])
    await site.acknowledge_newest("FAILED")
    assert await site.issue_due(5) == 0
    assert await site.rows("SELECT 1 FROM vcp_interval") == []


async def test_a_silent_partner_loses_the_site_to_its_fallback(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "SELF_CONSUMPTION", "afterSeconds": 60})
    assert [await site.issue_due(59), await site.issue_due(61), await site.issue_due(61)] == [0, 1, 0]
    assert await site.send("command.site-setpoint", powerKw=3) == "ACCEPTED"
    issued = [command[1].get("mode", command[0]) for command in await site.commands()]
    assert issued == ["CONFIG", "SELF_CONSUMPTION", "AUTO", "SITE_SETPOINT"]
    assert await site.issue_due(50) == 0
    assert await site.issue_due(70) == 1


async def test_what_was_ordered_for_a_time_is_no_silence(site: PartnerSite) -> None:
    await site.send("config.fallback", fallback={"mode": "STANDBY", "afterSeconds": 60})
    await site.send("command.site-setpoint", powerKw=3, durationSeconds=600)
    assert [await site.issue_due(300), await site.issue_due(661)] == [0, 1]


async def test_unreadable_messages_end_in_the_log_too(site: PartnerSite) -> None:
    slug = site.sender.key.slug
    plain = order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1)
    for body in (b"", b"{", b'{"messageId":"\\u0000"}', b'{"messageId":"\\ud800"}', b'{"siteId":7,"messageId":[1]}'):
        assert await site.take(plain._replace(body=body)) == "REJECTED"
    assert await site.take(plain._replace(routing_key=f"{slug}.command.\x00")) == "REJECTED"
    assert {entry[2] for entry in await site.log()} == {"MALFORMED"}
    assert len(await site.log()) == 6
    assert [one["messageId"] is None for one in await site.received()] == [True] * 5 + [False]


async def test_every_refused_message_stands_once_in_the_log_of_the_site_that_it_names(site: PartnerSite) -> None:
    slug, plant = site.sender.key.slug, site.plant.id

    def setpoint(**members: Any) -> PartnerMessage:
        return order("command.site-setpoint", plant, slug=slug, **({"powerKw": 1} | members))

    def broken(old: bytes, new: bytes) -> PartnerMessage:
        message = setpoint()
        return message._replace(body=message.body.replace(old, new))

    content = body_of(plant, mode="AUTO")
    accepted = setpoint()
    await site.take(accepted)
    refused = {
        "SIGNATURE_MISSING": order("command.mode", plant, slug=slug, mode="AUTO", headers={}),
        "SIGNATURE_INVALID": signed(f"{slug}.command.mode", content, key=bytes(32)),
        "TIMESTAMP_OUT_OF_WINDOW": signed(f"{slug}.command.mode", content, age=3600),
        "DUPLICATE": accepted._replace(body=accepted.body.replace(b'"powerKw": 1', b'"powerKw": 2')),
        "no member": setpoint(powerKw=None),
        "no message id": setpoint(messageId=None),
        "out of range": broken(b'"powerKw": 1', b'"powerKw": 1e999'),
        "NUL": setpoint(note="\0"),
        "too large": setpoint(note="x" * 900_000),
        "too deep": broken(b"}", b',"note":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
        "cut off": broken(b"1}", b""),
        "not UTF-8": broken(b"}", b',"\xff":1}'),
        "CC": setpoint()._replace(headers={"CC": ["a"]}),
        "routing key": setpoint()._replace(routing_key=f"{slug}.command.fly"),
    }
    for name, message in refused.items():
        for redelivered in (False, True):
            assert await site.take(message._replace(redelivered=redelivered)) == "REJECTED", name
    found = await site.rows(
        "SELECT rejection_reason FROM vcp_command WHERE plant_id = %(plant)s AND status = 'REJECTED' ORDER BY created_at, id"
    )
    assert [reason for (reason,) in found] == [*list(refused)[:4], *["MALFORMED"] * (len(refused) - 4)]
    assert {one["siteId"] for one in await site.received()} == {str(plant)}


async def test_an_unprocessable_message_stands_in_the_log_of_its_site(site: PartnerSite) -> None:
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
    async with site.database.transaction() as db:
        await refuse_unstorable(db, site.sender, message, datetime.now(UTC))
    assert await site.rows("SELECT plant_id, payload FROM vcp_command") == [(site.plant.id, {})]


async def test_sites_that_the_key_may_not_see_do_not_show_what_was_refused(site: PartnerSite) -> None:
    slug = site.sender.key.slug
    limited = sending_key(site.sender.key.organization_id, slug=slug, plant_ids=[new_id()])
    foreign = await site.plant.bench.plant()
    await site.take(order("command.mode", site.plant.id, slug=slug, mode="AUTO", headers={}), sender=limited)
    await site.take(order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1), sender=limited)
    await site.take(order("command.mode", foreign.id, slug=slug, mode="AUTO", headers={}))
    assert await site.rows("SELECT plant_id, rejection_reason FROM vcp_command ORDER BY created_at, id") == [
        (None, "SIGNATURE_MISSING"),
        (None, "SITE_NOT_ALLOWED"),
        (None, "SIGNATURE_MISSING"),
    ]


async def test_rolled_back_nothing_was_taken(site: PartnerSite) -> None:
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)

    async def killed() -> None:
        async with site.database.transaction() as db:
            await take_command(db, site.sender, message, datetime.now(UTC), 600)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        await killed()
    assert await site.log() == await site.commands() == await site.received() == []
