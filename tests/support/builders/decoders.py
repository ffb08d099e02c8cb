"""Every decoder of external input, with valid messages for it and the errors that it may raise."""

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives import serialization

from gridfleet.api.device_templates import ActionInput, Signals
from gridfleet.api.http.bodies import decode_json
from gridfleet.api.http.bound_endpoint import query_pairs
from gridfleet.api.http.inputs import As, Input
from gridfleet.api.http.inputs import read as read_input
from gridfleet.api.plants.importing import read_row, read_rows
from gridfleet.domains.device_templates.decoder import SignalMap
from gridfleet.domains.device_templates.models import Action
from gridfleet.domains.device_templates.parameters import parameter_complaints
from gridfleet.domains.device_templates.rules import action_complaints, signal_complaints
from gridfleet.domains.identity.access_tokens import AccessClaims, AccessTokens
from gridfleet.domains.ingest import parsing
from gridfleet.domains.ingest.models import Refusal
from gridfleet.domains.partners import key_text
from gridfleet.domains.partners.amqp_access import decisions as partner_access
from gridfleet.domains.plants.mqtt_access import decisions as plant_access
from gridfleet.domains.plants.mqtt_access.decisions import PlantUserName
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.domains.trading.esm.client import EsmFailed, decode_response
from gridfleet.domains.trading.esm.messages import EsmConfig, EsmPlant, EsmPlants, EsmReadings, EsmToken, PlanResponse
from gridfleet.domains.vcp.models import PartnerMessage, Rejection
from gridfleet.domains.vcp.verification import prove, read
from gridfleet.kernel.addresses import parse_address
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.outbound.sending import Response
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.tokens import InvalidToken
from gridfleet.protocol import envelope as wire
from gridfleet.protocol.partner_messages import read_heading
from gridfleet.protocol.partner_routes import SIGNATURE_HEADER, TIMESTAMP_HEADER, parse_inbound
from gridfleet.protocol.signature import sign
from gridfleet.protocol.topics import parse_routing_key, parse_topic
from gridfleet.sdk.plant.errors import PackageError
from gridfleet.sdk.plant.package import Package
from support.builders.mutations import STRANGE, mutate_bytes, mutate_json, mutate_text
from support.builders.partner_commands import SIGNING_KEY, SLUG, order, sending_key, soon
from support.servers.authorities import company_authority

PLANT: Final = UUID("018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d")
NOW: Final = datetime.now(UTC)
TIME: Final = NOW.isoformat()
KEY: Final = bytes(range(32))


class Decoder(NamedTuple):
    """A decoder under test. `mutant(seed)` makes a message; `take` decodes it and may raise only `answers`."""

    mutant: Callable[[int], Any]
    take: Callable[[Any], object]
    answers: tuple[type[Exception], ...] = ()


def _of_json(*samples: Any) -> Callable[[int], bytes]:
    return lambda seed: mutate_json(samples[seed % len(samples)], seed)


def _of_text(*samples: str) -> Callable[[int], str]:
    return lambda seed: mutate_text(samples[seed % len(samples)], seed)


def _of_bytes(*samples: bytes) -> Callable[[int], bytes]:
    return lambda seed: mutate_bytes(samples[seed % len(samples)], seed)


SNAPSHOT: Final = {
    "time": TIME,
    "seq": 7,
    "fields": {"frequency": 50.01, "on": True, "gone": None},
    "devices": [{"id": "PV1", "time": 1795168800123, "status": "DEGRADED", "fields": {"active_power": 4.2, "status": 5}}],
}
STATUS: Final = {"status": "ONLINE", "time": TIME, "reason": "start", "firmware": "1.2"}
ACK: Final = {"commandId": str(PLANT), "status": "FAILED", "time": TIME, "reason": {"code": "BUSY", "message": "later"}}
ENVELOPE: Final = json.loads(
    wire.sign_message(KEY, "v1/plants/x/telemetry", "m-1", 1795168800123, json.dumps(SNAPSHOT).encode())
)


def _take_snapshot(body: bytes) -> None:
    found = parsing.parse_snapshot(msgspec.Raw(body), "payload", "m-1")
    parsing.measurement_time(found.time, "time", "m-1", NOW)
    parsing.check_fields(found.fields, "fields", "m-1")
    for entry in found.devices:
        parsing.check_external_id(entry.id, "id", "m-1")
        if entry.time is not None:
            parsing.measurement_time(entry.time, "time", "m-1", NOW)


def _message(payload: bytes) -> wire.Envelope:
    return wire.Envelope(1, "m-1", 0, msgspec.Raw(payload))


SIGNALS: Final = [
    {"key": "p", "field": "p.raw", "scale": 0.1, "offset": -5, "unit": "kW", "min": 0, "max": 10},
    {"key": "total", "field": "e", "kind": "counter"},
    {"key": "fault", "bit": 3, "word": "flags", "invert": True, "severity": "CRITICAL"},
    {"key": "mode", "field": "m", "symbols": {"0": "OFF"}},
]
FIELDS: Final = {"p.raw": 100, "e": 7.5, "flags": 8, "m": 1, "other": None}
ACTION: Final = {
    "action": "charge",
    "params": [
        {"name": "power", "type": "number", "min": 0, "max": 100},
        {"name": "count", "type": "integer", "required": False},
        {"name": "how", "type": "enum", "enum": ["fast", "slow"]},
        {"name": "note", "type": "string", "maxLength": 10},
    ],
    "timeoutSeconds": 30,
}
PARAMS: Final = {"power": 5.5, "count": 2, "how": "fast", "note": "now"}


class _Signals(Input):
    signals: Signals


class _Action(Input):
    action: Annotated[Action, As(ActionInput)]


def _decode_with_template(parts: tuple[bytes, bytes]) -> None:
    signals = read_input(_Signals, {"signals": decode_json(parts[0])}).signals
    if any(signal_complaints(signals)):
        return
    try:
        fields = msgspec.json.decode(parts[1], type=dict[str, wire.FieldValue])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    decoder = SignalMap(signals)
    for value in decoder.decode(fields) or ():
        assert value is None or abs(value) < float("inf")
    decoder.undeclared(fields)


def _complain_about_params(parts: tuple[bytes, bytes]) -> None:
    action = read_input(_Action, {"action": decode_json(parts[0])}).action
    params = decode_json(parts[1])
    if not any(action_complaints([action])) and isinstance(params, dict):
        list(parameter_complaints(action, params))


ORDERS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("command.site-setpoint", {"powerKw": -5, "durationSeconds": 60}),
    ("command.device.BAT1", {"action": "stop", "params": {"power": 1}}),
    ("command.mode", {"mode": "STANDBY", "expiresAt": soon()}),
    ("schedule.set", {"scheduleId": "s", "revision": 1, "intervals": [{"start": TIME, "durationSeconds": 900, "powerKw": 1}]}),
    ("schedule.cancel", {"scheduleId": "s"}),
    ("config.constraints", {"constraints": {"importLimitKw": 5, "socMinPct": None}}),
    ("config.fallback", {"fallback": {"mode": "AUTO", "afterSeconds": 60}}),
]
_SENDER: Final = sending_key()


def _mutated_order(seed: int) -> PartnerMessage:
    """Return a partner command whose changed body is signed again, so that the checks after the signature run too."""
    kind, members = ORDERS[seed % len(ORDERS)]
    valid = order(kind, PLANT, **members)
    chance = random.Random(seed)
    body = mutate_json(json.loads(valid.body), seed)
    mutated = mutate_text(valid.routing_key, seed).encode("utf-8", "replace").decode()  # as AMQP transfers it
    key = mutated if chance.randrange(8) == 0 else valid.routing_key
    sent_at = int(NOW.timestamp() * 1000)
    message_id = str(read_heading(body).get("messageId"))
    signed = sign(SIGNING_KEY, key, message_id.encode("utf-8", "replace").decode(), sent_at, body)
    headers: dict[str, Any] = {SIGNATURE_HEADER: signed, TIMESTAMP_HEADER: sent_at}
    if chance.randrange(4) == 0:
        headers[chance.choice([SIGNATURE_HEADER, TIMESTAMP_HEADER, "CC", "x"])] = chance.choice([*STRANGE, b"\xff", b"1"])
    return PartnerMessage(key, body, headers)


def _take_order(message: PartnerMessage) -> None:
    message_id = read_heading(message.body).get("messageId")
    read(message, prove(message, _SENDER, message_id, NOW, 600))


def _may_do_anything(text: str) -> None:
    plant_access.parse_plant_name(text)
    partner_access.key_of_tags(text)
    partner_access.is_key(text)
    key_text.digest_of(text)
    name = PlantUserName(PLANT, None)
    for permission in ("read", "write", "configure"):
        assert not plant_access.may_use_topic(name, "plants", "amq.topic", permission, text.replace(str(PLANT), "x"))
        plant_access.may_use_resource(name, "plants", "queue", text, permission)
    parse_address(text)


ESM: Final[list[tuple[type, Any]]] = [
    (EsmToken, {"access_token": "t", "token_type": "Bearer", "expires_in": 3600}),
    (EsmPlants, {"plants": [{"externalPlantId": "p"}]}),
    (EsmPlant, {"externalPlantId": "p", "name": "n", "capacityKwh": 5, "latitude": 50.1, "tag": None, "esiState": "PLC_READY"}),
    (EsmConfig, {"configEnabled": True, "esiState": "PLC_READY", "version": 1, "timeConfigs": []}),
    (PlanResponse, {"requestCode": "r", "resultCode": "OK", "message": "", "isError": False, "isTerminal": True, "version": 2}),
    (EsmReadings, {"readings": [{"time": TIME, "meter_id": "m", "interval": 15, "energy": 0.5}]}),
]


def _mutated_response(seed: int) -> tuple[type, Response]:
    kind, content = ESM[seed % len(ESM)]
    chance = random.Random(seed)
    status = chance.choice([200, 200, 200, 201, 204, 301, 400, 422, 500, 999])
    content_type = chance.choice(
        ["application/json", "application/json", "application/problem+json", "text/html", "\xff;;", ""]
    )
    return kind, Response(status, content_type, mutate_json(content, seed))


_RING: Final = Keyring.parse("1:" + "5a" * 32)
_ACCESS: Final = AccessTokens(_RING)
_PLANT_TOKENS: Final = PlantTokens(_RING, timedelta(hours=1))
_TOKENS: Final = (_ACCESS.issue(AccessClaims(PLANT, PLANT, 1)), _PLANT_TOKENS.issue(PLANT).token)
_COMPANY: Final = company_authority("Company")
_KEY_PEM: Final = _COMPANY.key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


def _mutated_token(seed: int) -> str:
    """Return a token with changed text, or with a changed header or changed claims."""
    chance = random.Random(seed)
    token = _TOKENS[seed % 2]
    if chance.randrange(2):
        return mutate_text(token, seed)
    parts = token.split(".")
    at = chance.randrange(2)
    encoded = msgspec.json.decode(msgspec.json.encode(mutate_json(_unpacked(parts[at]), seed)))
    parts[at] = str(encoded).rstrip("=").replace("+", "-").replace("/", "_")
    return ".".join(parts)


def _unpacked(part: str) -> Any:
    return msgspec.json.decode(msgspec.json.decode(b'"%s"' % (part + "=" * (-len(part) % 4)).encode(), type=bytes))


def _take_certificates(parts: tuple[bytes, bytes]) -> None:
    Authority.load(*parts)


def _take_csv(body: bytes) -> None:
    for number, cells in read_rows(body):
        read_row(number, cells, [])


_CSV: Final = (
    b'name,serialNumber,type,authMethod,metadata\nOne,s-1,GATEWAY,MTLS,"{""a"": 1}"\nTwo,s-2,GATEWAY,TOKEN,\n',
    b"\xef\xbb\xbfname;serialNumber;type\r\nOne;s-1;GATEWAY\r\n",
)
_PACKAGE: Final = {
    "plantId": str(PLANT),
    "authMethod": "PASSWORD",
    "mqtt": {
        "broker": "localhost",
        "port": 8883,
        "tls": True,
        "clientId": str(PLANT),
        "username": str(PLANT),
        "topics": {name: f"v1/plants/{PLANT}/{name}" for name in ("telemetry", "status", "commands", "ack")},
    },
    "protocol": {
        "version": 1,
        "envelope": "v1",
        "signature": "HMAC-SHA256",
        "qos": 1,
        "keepAliveSeconds": 60,
        "maxMessageBytes": 1,
    },
    "security": {"caCert": "pem", "clientCert": None, "clientKey": None, "hmacSecret": "00" * 32, "password": "p"},
}

DECODERS: Final[dict[str, Decoder]] = {
    "mqtt envelope": Decoder(_of_json(ENVELOPE), parsing.parse_envelope, (Refusal,)),
    "mqtt telemetry": Decoder(_of_json(SNAPSHOT), _take_snapshot, (Refusal,)),
    "mqtt telemetry array": Decoder(
        _of_json([SNAPSHOT, SNAPSHOT]), lambda body: parsing.parse_snapshots(_message(body)), (Refusal,)
    ),
    "mqtt status": Decoder(_of_json(STATUS), parsing.parse_status, (Refusal,)),
    "mqtt acknowledgement": Decoder(
        _of_json(ACK), lambda body: parsing.parse_acknowledgement(_message(body), PLANT, "request"), (Refusal,)
    ),
    "template": Decoder(
        lambda seed: (mutate_json(SIGNALS, seed) if seed % 3 == 0 else json.dumps(SIGNALS).encode(), mutate_json(FIELDS, seed)),
        _decode_with_template,
        (ValidationFailed,),
    ),
    "action": Decoder(
        lambda seed: (mutate_json(ACTION, seed) if seed % 2 else json.dumps(ACTION).encode(), mutate_json(PARAMS, seed)),
        _complain_about_params,
        (ValidationFailed,),
    ),
    "topics": Decoder(
        _of_text(f"v1/plants/{PLANT}/telemetry", f"v1.plants.{PLANT}.ack"),
        lambda text: (parse_topic(text), parse_routing_key(text)),
    ),
    "partner's routing key": Decoder(
        _of_text(f"{SLUG}.command.device.BAT1", f"{SLUG}.schedule.set"), lambda text: parse_inbound(SLUG, text)
    ),
    "partner's order": Decoder(_mutated_order, _take_order, (Rejection,)),
    "authorisation requests": Decoder(
        _of_text(str(PLANT), f"SERIALNUMBER=1f,CN={PLANT}", f"key-{PLANT} administrator", f"mqtt-subscription-{PLANT}qos1"),
        _may_do_anything,
    ),
    "esm answer": Decoder(_mutated_response, lambda given: decode_response(given[1], given[0]), (EsmFailed,)),
    "json": Decoder(_of_json(SNAPSHOT, PARAMS), decode_json, (ValidationFailed,)),
    "query": Decoder(_of_bytes(urlencode({"page": 2, "from": TIME, "name": "é"}).encode()), query_pairs, (ValidationFailed,)),
    "csv": Decoder(_of_bytes(*_CSV), _take_csv, (ValidationFailed,)),
    "token": Decoder(
        _mutated_token, lambda text: _ACCESS.read(text) if len(text) % 2 else _PLANT_TOKENS.read(text), (InvalidToken,)
    ),
    "certificates": Decoder(
        lambda seed: (mutate_bytes(_COMPANY.pem, seed), _KEY_PEM) if seed % 2 else (_COMPANY.pem, mutate_bytes(_KEY_PEM, seed)),
        _take_certificates,
        (ValueError, TypeError),
    ),
    "provisioning package": Decoder(_of_json(_PACKAGE), Package.parse, (PackageError,)),
}


def attack(name: str, seeds: Sequence[int] | range) -> None:
    """Decode the mutants of these seeds. Raises AssertionError for the first with another error than those permitted."""
    decoder = DECODERS[name]
    for seed in seeds:
        message = decoder.mutant(seed)
        try:
            decoder.take(message)
        except decoder.answers:
            continue
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}: {message!r:.500}") from error
