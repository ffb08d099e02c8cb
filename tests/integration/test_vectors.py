"""The vectors of `docs/vectors.md`: each goes through the code that reads such messages in the service, or in a plant."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.vcp.models import PartnerMessage, Rejection, Verified
from gridfleet.domains.vcp.verification import prove, read
from gridfleet.kernel.db import Database
from gridfleet.protocol.envelope import Command, CommandType, RefusalReason
from gridfleet.protocol.partner_messages import (
    AckEvent,
    AlertEvent,
    RejectionReason,
    StatusEvent,
    TelemetryEvent,
    read_heading,
)
from gridfleet.protocol.partner_routes import CommandKind, EventKind, event_queue
from gridfleet.protocol.token_request import sign_token_request
from gridfleet.protocol.topics import parse_topic
from gridfleet.sdk.plant.commands import open_command
from gridfleet.sdk.plant.errors import CommandRefused
from support.builders.clock import set_clock
from support.builders.partner_commands import SLUG, sending_key
from support.clients.ingest_bench import Bench

PAGE = (Path(__file__).parents[2] / "docs" / "vectors.md").read_text()
VECTORS: list[dict[str, Any]] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
NOW_MS = 1795168800123
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
PLANT = UUID("018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d")
KEY = bytes(range(32))
DECIDED_BY_STATE = set(RejectionReason) - {"MALFORMED", "SIGNATURE_MISSING", "SIGNATURE_INVALID", "TIMESTAMP_OUT_OF_WINDOW"}
DECIDED_BY_SIZE_OR_STATE = {"TOO_LARGE", "TOO_MANY_DEVICES", "TOO_MANY_FIELDS", "NOT_PROVISIONED", "CREDENTIAL_UNREADABLE"}
EVENTS = {
    EventKind.TELEMETRY: TelemetryEvent,
    EventKind.STATUS: StatusEvent,
    EventKind.COMMAND_ACK: AckEvent,
    EventKind.ALERT: AlertEvent,
}


def of(*members: str, without: str = "") -> list[dict[str, Any]]:
    """The vectors with one of these members."""
    return [vector for vector in VECTORS if any(name in vector for name in members) and without not in vector]


async def test_what_a_plant_sends(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda: NOW)
    bench = Bench(database)
    plant = await bench.plant(["PV1", "GRID"], plant_id=PLANT)
    before: dict[str, dict[datetime, float]] = {}
    for vector in of("stores", "status", "acknowledges", "refused", without="routingKey"):
        topic = parse_topic(vector["topic"])
        assert topic is not None
        delivery = Delivery(vector["topic"].replace("/", "."), vector["message"].encode(), NOW_MS)
        bench.pipeline.plant_cache.invalidate_all()
        batch = await bench.take(delivery)
        stored = await plant.stored()
        new = {
            metric: {at.isoformat(): value for at, value in points.items() if at not in before.get(metric, {})}
            for metric, points in stored.items()
        }
        before = stored

        assert {metric: points for metric, points in new.items() if points} == vector.get("stores", {})
        assert [message.reason for _, message in batch.refused] == ([vector["refused"]] if "refused" in vector else [])
        if "status" in vector:
            assert [seen.status for seen in batch.plants_seen.values()] == [vector["status"]]
        assert [spoken(ack) for ack in batch.acknowledgements] == ([vector["acknowledges"]] if "acknowledges" in vector else [])


def spoken(ack: Any) -> dict[str, Any]:
    reason = {} if ack.reason is None else {"reason": msgspec.to_builtins(ack.reason)}
    return {"commandId": str(ack.command_id), "status": ack.status, **reason}


def opened(vector: dict[str, Any]) -> Command:
    return open_command(vector["message"].encode(), key=KEY, address=vector["topic"], now_milliseconds=NOW_MS)


@pytest.mark.parametrize("vector", of("command"), ids=lambda vector: vector["command"]["type"])
def test_what_a_plant_receives(vector: dict[str, Any]) -> None:
    assert opened(vector) == msgspec.convert(vector["command"], Command)


@pytest.mark.parametrize("vector", of("ignore"), ids=lambda vector: vector["ignore"])
def test_what_a_plant_throws_away(vector: dict[str, Any]) -> None:
    with pytest.raises(CommandRefused) as refused:
        opened(vector)
    assert refused.value.reason == vector["ignore"]


def verified(vector: dict[str, Any]) -> Verified:
    message = PartnerMessage(vector["routingKey"], vector["body"].encode(), vector["headers"])
    return read(message, prove(message, sending_key(slug=SLUG), read_heading(message.body).get("messageId"), NOW, 600))


@pytest.mark.parametrize("vector", of("means"), ids=lambda vector: vector["routingKey"])
def test_what_a_partner_orders(vector: dict[str, Any]) -> None:
    found = verified(vector)
    order = json.loads(msgspec.json.encode(found.command))
    members = {name: value for name, value in order.items() if name not in ("messageId", "siteId", "issuedAt")}
    shown = {"commandType": found.type.value, "device": found.device, **members}
    assert {name: value for name, value in shown.items() if value is not None} == vector["means"]


@pytest.mark.parametrize("vector", [one for one in of("refused") if "routingKey" in one], ids=lambda vector: vector["refused"])
def test_what_a_partner_may_not_order(vector: dict[str, Any]) -> None:
    with pytest.raises(Rejection) as rejection:
        verified(vector)
    assert rejection.value.reason == vector["refused"]


@pytest.mark.parametrize("vector", of("queue"), ids=lambda vector: vector["queue"])
def test_what_a_partner_receives(vector: dict[str, Any]) -> None:
    [kind] = [kind for kind in EventKind if event_queue(SLUG, kind) == vector["queue"]]
    event = msgspec.json.decode(vector["body"], type=EVENTS[kind], strict=True)
    assert json.loads(msgspec.json.encode(event)) == json.loads(vector["body"])


def test_every_kind_of_message_and_refusal_has_a_vector() -> None:
    refused = {vector["refused"] for vector in of("refused", without="routingKey")}
    assert refused == set(RefusalReason) - DECIDED_BY_SIZE_OR_STATE
    rejected = {vector["refused"] for vector in of("refused") if "routingKey" in vector}
    assert rejected == set(RejectionReason) - DECIDED_BY_STATE
    assert {vector["command"]["type"] for vector in of("command")} == set(CommandType)
    assert {f"{SLUG}.{kind}" for kind in CommandKind} <= {vector["routingKey"].removesuffix(".BAT1") for vector in of("means")}
    assert {vector["queue"] for vector in of("queue")} == {event_queue(SLUG, kind) for kind in EventKind}
    assert all(f"`{reason}`" in PAGE for reason in DECIDED_BY_SIZE_OR_STATE)


def test_what_a_plant_sends_for_a_token() -> None:
    [vector] = of("request")
    request = vector["request"]
    assert sign_token_request(KEY, str(PLANT), request["id"], request["sentAt"]) == request["sig"]
