"""Plants registered over REST at a running service, with the actions of plants and installers."""

import itertools
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import psycopg

from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.secrets import local_secret
from gridfleet.protocol.envelope import sign_message
from support.clients import lean_mqtt
from support.servers.running_stack import RunningStack

T = TypeVar("T")
_numbers = itertools.count(1)

JsonObject = dict[str, Any]


@dataclass
class Plant:
    """A plant and its package. `package` is empty before provisioning."""

    fleet: "Fleet"
    id: str
    method: str
    package: JsonObject = field(default_factory=dict)

    @property
    def secret(self) -> bytes:
        """The plant's signing key."""
        return bytes.fromhex(self.package["security"]["hmacSecret"])

    @property
    def password(self) -> str | None:
        """The password field of its login: the package's password, or a new token, or None."""
        if self.method == "TOKEN":
            return str(self.fleet.call("POST", f"/plants/{self.id}/mqtt-token")["token"])
        password: str | None = self.package["security"]["password"]
        return password

    @property
    def login(self) -> lean_mqtt.Login:
        """A login that the service accepts."""
        if self.method == "MTLS":
            return lean_mqtt.Login(self.id)
        return lean_mqtt.Login(self.id, self.id, self.password)

    def topic(self, channel: str = "telemetry") -> str:
        """Return one of the plant's four topics."""
        return f"v1/plants/{self.id}/{channel}"

    def tls(self, *, certificate: bool = True) -> ssl.SSLContext:
        """Return a TLS context that trusts the service. `certificate` adds the plant's own certificate if it has one."""
        security = self.package["security"]
        own = certificate and security["clientCert"] is not None
        return tls_context(security["caCert"], security["clientCert"] + security["clientKey"] if own else None)

    async def connect(self, login: lean_mqtt.Login | None = None) -> lean_mqtt.Connection:
        """Return a connection over TLS."""
        return await lean_mqtt.connect(self.fleet.stack.ports["mqtts_port"], login or self.login, self.tls())

    def signed(
        self, payload: bytes | object, *, message_id: str | None = None, age_seconds: float = 0, **changes: Any
    ) -> bytes:
        """Return a signed telemetry message. `changes` may hold `key` and `topic`."""
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return sign_message(
            changes.get("key", self.secret),
            changes.get("topic", self.topic()),
            message_id or f"m-{next(_numbers)}",
            int((time.time() - age_seconds) * 1000),
            content,
        )

    def add_device(self, external_id: str, type: str = "INVERTER", template_id: str | None = None) -> JsonObject:
        """Register a sub-device."""
        body = {"externalId": external_id, "name": external_id, "type": type}
        answer: JsonObject = self.fleet.call(
            "POST", f"/plants/{self.id}/sub-devices", body | ({"templateId": template_id} if template_id else {})
        )
        return answer

    def refused(self) -> list[JsonObject]:
        """Return the plant's refused messages, newest first."""
        found: list[JsonObject] = self.fleet.call("GET", f"/plants/{self.id}/refused-messages?limit=100")["data"]
        return found

    def refusal_of(self, message_id: str) -> JsonObject:
        """Wait for the refusal of one message and return it."""
        return wait_for(lambda: next((one for one in self.refused() if one["messageId"] == message_id), None))

    def unregistered(self) -> list[JsonObject]:
        """Return the plant's unregistered devices."""
        found: list[JsonObject] = self.fleet.call("GET", f"/plants/{self.id}/unregistered-devices")
        return found

    def latest(self) -> dict[str, tuple[str, float]]:
        """Return (time, value) of each metric."""
        points = self.fleet.call("GET", f"/telemetry/{self.id}/latest")
        return {point["metric"]: (point["time"], point["value"]) for point in points}

    def history(self, start: str, end: str) -> dict[str, dict[str, float]]:
        """Return values by time and metric."""
        found: dict[str, dict[str, float]] = {}
        for point in self.fleet.call("GET", f"/telemetry?plantId={self.id}&from={start}&to={end}"):
            found.setdefault(point["time"], {})[point["metric"]] = point["value"]
        return found

    def status(self) -> str:
        """Return ONLINE, OFFLINE or UNKNOWN."""
        return str(self.fleet.call("GET", f"/plants/{self.id}")["status"])

    def device_status(self, external_id: str) -> str:
        """Return ONLINE, DEGRADED, OFFLINE or UNKNOWN."""
        return str(self.fleet.call("GET", f"/plants/{self.id}/sub-devices/{external_id}")["status"])

    def update(self, **columns: object) -> None:
        """Write columns of the plant's row, for states that no endpoint produces."""
        self.fleet.update("plant", "id", self.id, columns)

    def set_online(self) -> None:
        """Set the plant to ONLINE as if a message of it had just arrived: a plant that is silent is soon set to OFFLINE."""
        self.update(status="ONLINE", last_seen_at=datetime.now(UTC))

    def update_secret(self, **columns: object) -> None:
        """Write columns of the plant's secrets."""
        self.fleet.update("plant_secret", "plant_id", self.id, columns)


class Fleet:
    """An organisation at a running service, used by a SuperAdmin."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self._http = httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=30)
        self._log_in()
        name = f"fleet-{uuid4().hex[:12]}"
        self.enter(str(self.call("POST", "/organizations", {"name": name, "slug": name})["id"]))
        self.templates: dict[str, str] = {one["name"]: one["id"] for one in self.call("GET", "/device-templates")}
        self.keyring = Keyring.parse(local_secret(stack.home, "keys"))

    def enter(self, organization_id: str) -> None:
        """Make further calls about this organisation."""
        self.organization_id = self._http.headers["x-org-id"] = organization_id

    @property
    def headers(self) -> dict[str, str]:
        """The SuperAdmin's headers, for another client."""
        return {name: self._http.headers[name] for name in ("authorization", "x-org-id")}

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of a response. Raises httpx.HTTPStatusError unless it is a success."""
        answer = self._http.request(method, path, json=body)
        if answer.status_code == httpx.codes.UNAUTHORIZED and path != "/auth/login":
            # On a busy machine the tests of a session take longer than an access token is valid.
            self._log_in()
            answer = self._http.request(method, path, json=body)
        if answer.is_error:
            raise httpx.HTTPStatusError(f"{method} {path}: {answer.text}", request=answer.request, response=answer)
        return answer.json() if answer.content else None

    def _log_in(self) -> None:
        login = {"email": self.stack.admin_email, "password": self.stack.admin_password}
        self._http.headers["authorization"] = f"Bearer {self.call('POST', '/auth/login', login)['access_token']}"

    def register(self, method: str = "PASSWORD") -> Plant:
        """Return a new PENDING plant."""
        body = {"name": method, "serialNumber": uuid4().hex, "type": "GATEWAY", "authMethod": method}
        return Plant(self, self.call("POST", "/plants", body)["id"], method)

    def plant(self, method: str = "PASSWORD", devices: Sequence[str] = ()) -> Plant:
        """Return a new ACTIVE plant with sub-devices that have no template."""
        plant = self.register(method)
        for external_id in devices:
            plant.add_device(external_id)
        plant.package = self.call("POST", f"/plants/{plant.id}/provision")
        return plant

    def template(self, signals: Sequence[JsonObject], type: str = "INVERTER") -> str:
        """Return the id of a new template."""
        body = {"name": uuid4().hex, "type": type, "level": "SUB_DEVICE", "signals": list(signals), "actions": []}
        return str(self.call("POST", "/device-templates", body)["id"])

    def authority(self) -> Authority:
        """Return the service's authority with its key, for certificates that the service would not issue."""
        [[pem, signed, version]] = self.sql("SELECT certificate, private_key, key_version FROM certificate_authority")
        key = self.keyring.decrypt(signed, version, table="certificate_authority", column="private_key", row_id="1")
        return Authority(pem, key.decode())

    def sql(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, commit, and return its rows."""
        with psycopg.connect(self.stack.database_url, autocommit=True) as db:
            cursor = db.execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def update(self, table: str, key: str, row_id: str, columns: Mapping[str, object]) -> None:
        """Write columns of one row."""
        assignments = ", ".join(f"{name} = %s" for name in columns)
        self.sql(f"UPDATE {table} SET {assignments} WHERE {key} = %s", [*columns.values(), row_id])

    def close(self) -> None:
        """End the session."""
        self._http.close()


def wait_for(look: Callable[[], T | None], seconds: float = 90) -> T:
    """Return the first result of `look` that is neither None nor False."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"still {found!r} after {seconds} s")
        time.sleep(0.05)


def tls_context(authority: str, certificate_and_key: str | None = None) -> ssl.SSLContext:
    """Return a client's TLS context that trusts `authority`, with a client certificate if given. All in PEM."""
    context = ssl.create_default_context(cadata=authority)
    if certificate_and_key is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(certificate_and_key)
            file.flush()
            context.load_cert_chain(Path(file.name))
    return context
