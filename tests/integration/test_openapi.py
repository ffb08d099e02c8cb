"""The published document is valid, and the running service keeps to it whatever it is sent."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    response_schema_conformance,
    status_code_conformance,
)
from typer.testing import CliRunner

from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.http.openapi import build_document
from gridfleet.cli import application
from support.clients.documented_errors import assert_documented
from support.servers.served import Served, served

import_handlers()
DOCUMENT = build_document(ENDPOINTS.values(), version="0", base_url="http://localhost")
PROVES_AT_THE_BROKER = {"POST /api/v1/partner/api-keys"}
"""Fails as its row says where there is no broker, as here."""
SECTIONS = ("/api/v1/plants", "/api/v1/plant-groups", "/api/v1/device-templates")
"""Receive such requests in tests/integration/plants/test_random_requests.py, with records that exist."""
ENDS_ITS_SESSION = {"/api/v1/auth/logout", "/api/v1/auth/logout-all"}


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    with served(database_url, home) as running:
        yield running


def test_the_document_is_valid_and_complete() -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    assert schema.validate() is None
    operations = {(result.ok().method.upper(), result.ok().path) for result in schema.get_all_operations()}
    assert operations == {key for key, endpoint in ENDPOINTS.items() if endpoint.in_document}
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


def test_every_operation_says_who_may_call_it_and_what_it_answers() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], f"{method} {path}"
            assert operation["description"], f"{method} {path}"
            assert "500" in operation["responses"]
            assert "429" in operation["responses"]


def test_the_service_publishes_it_with_a_page_to_try_it(service: Served) -> None:
    base = f"http://127.0.0.1:{service.settings.http_port}"
    published = httpx.get(f"{base}/api/v1/openapi.json")
    assert published.json()["openapi"] == "3.1.0"
    environment = {"GRIDFLEET_PUBLIC_URL": service.settings.base_url}
    assert CliRunner().invoke(application, ["openapi"], env=environment).stdout_bytes == published.content
    assert published.json()["paths"].keys() == DOCUMENT["paths"].keys()
    page = httpx.get(f"{base}/docs")
    loaded = re.findall(r'(?:src|href)="(/[^"]*)"', page.text)
    assert loaded == ["/docs/swagger-ui.css", "/docs/swagger-ui.js", "/docs/page.js"]
    assert "http" not in page.text, "nothing comes from elsewhere"
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script[^>]*>[^<]", page.text) == [], (
        "the policy forbids inline code and styles"
    )
    for answer in (page, *(httpx.get(base + path) for path in loaded)):
        assert answer.status_code == 200
        kind = {"css": "text/css", "js": "text/javascript"}.get(answer.url.path.rpartition(".")[2], "text/html")
        assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
        assert "'self'" in answer.headers["content-security-policy"]


@pytest.mark.slow
def test_the_service_keeps_to_it(service: Served) -> None:
    """Random good and bad requests to the other sections' operations: no 5xx, no undocumented status, no other shape."""
    base = f"http://127.0.0.1:{service.settings.http_port}"
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    for result in schema.get_all_operations():
        operation: Any = result.ok()
        if operation.path in {*ENDS_ITS_SESSION, "/api/v1/health/ready"} or operation.path.startswith(SECTIONS):
            continue

        @settings(
            max_examples=8,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
        def send(case: Any) -> None:
            answer = case.call(base_url=base, headers=service.headers)
            assert answer.status_code < 500 or case.operation.label in PROVES_AT_THE_BROKER, answer.text
            if answer.status_code != 404:  # a path that generation made into another route
                case.validate_response(answer, checks=[status_code_conformance, response_schema_conformance])
                assert_documented(DOCUMENT, case.operation, answer)

        send()
