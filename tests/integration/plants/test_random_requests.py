"""Random good and bad requests to every row of the registry, about records that exist: no failure of ours, no other shape."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.http.openapi import build_document
from support.clients.documented_errors import assert_documented
from support.servers.served import Served, served

import_handlers()
SECTIONS = ("/api/v1/plants", "/api/v1/plant-groups", "/api/v1/device-templates")
DOCUMENT = build_document(
    [endpoint for endpoint in ENDPOINTS.values() if endpoint.path.startswith(SECTIONS) and not endpoint.path.endswith("/live")],
    version="0",
    base_url="http://localhost",
)
CSV = "text/csv"


@schemathesis.serializer(CSV)
def as_text(context: Any, value: Any) -> bytes:
    """Whatever was generated, as the text of a file."""
    return str(value).encode("utf-8", "replace")


class Records:
    """Records to ask about, made anew when a request has deleted or ended them."""

    def __init__(self, service: Served) -> None:
        self._http = httpx.Client(base_url=f"{service.url}/api/v1", headers=service.headers, timeout=30)
        self._made = 0

    def place(self, path: str) -> dict[str, str]:
        """Path parameters that name records of a path's section."""
        if path.startswith("/api/v1/device-templates"):
            return {"id": self._new("/device-templates", {"type": "METER", "signals": []})}
        if path.startswith("/api/v1/plant-groups"):
            return {"id": self._new("/plant-groups", {})}
        plant = self._new("/plants", {"type": "GATEWAY", "authMethod": ("MTLS", "TOKEN", "PASSWORD")[self._made % 3]})
        if self._made % 4:
            self._http.post(f"/plants/{plant}/provision").raise_for_status()
        device = {"externalId": "M", "name": "m", "type": "METER"}
        self._http.post(f"/plants/{plant}/sub-devices", json=device).raise_for_status()
        return {"id": plant, "plantId": plant, "externalId": "M"}

    def _new(self, path: str, fields: dict[str, Any]) -> str:
        self._made += 1
        serial = {"serialNumber": f"random-{self._made}"} if path == "/plants" else {}
        answer = self._http.post(path, json={"name": f"Random {self._made}", **serial, **fields})
        return str(answer.raise_for_status().json()["id"])


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    with served(database_url, home) as running:
        yield running


@pytest.mark.slow
def test_records_that_exist_are_asked_for_at_random(service: Served) -> None:
    records = Records(service)
    answered: dict[str, set[int]] = {}
    for result in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations():
        operation: Any = result.ok()
        answered[f"{operation.method.upper()} {operation.path}"] = ask(service, records, operation)
    never_served = {row: statuses for row, statuses in answered.items() if not statuses & {200, 201}}
    assert len(never_served) < len(answered) / 2, never_served


def ask(service: Served, records: Records, operation: Any) -> set[int]:
    """The statuses that an operation answered; half of the requests are about records that exist."""
    statuses: set[int] = set()
    cases = operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

    @settings(
        max_examples=14,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, real=st.booleans())
    def send(case: Any, real: bool) -> None:
        if real and case.path_parameters:
            place = records.place(case.operation.path)
            case.path_parameters = {name: place.get(name, value) for name, value in case.path_parameters.items()}
        answer = case.call(base_url=service.url, headers=service.headers)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        if answer.status_code != 404:  # a path that generation made into another route
            case.validate_response(answer, checks=[status_code_conformance, response_schema_conformance])
            assert_documented(DOCUMENT, operation, answer)

    send()
    return statuses
