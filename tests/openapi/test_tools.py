"""What others build from the OpenAPI document: linters find nothing, and generated clients compile and work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psycopg
import pytest

from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.http.openapi import build_document
from gridfleet.kernel.ids import new_id
from support.servers.served import Served, served

HERE: Final = Path(__file__).parent
TOOLS: Final = HERE.parents[1] / ".tools"
BIN: Final = TOOLS / "node_modules" / ".bin"
PYTHON: Final = str(TOOLS / "bin" / "python")
PASSWORD: Final = "Correct horse battery 1!"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document in a file."""
    assert (TOOLS / "installed").exists(), "scripts/ensure_openapi_tools.sh installs what these tests run"
    import_handlers()
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(json.dumps(build_document(ENDPOINTS.values(), version="0", base_url="https://fleet.test")))
    return path


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a tool and return what it printed; fail with that text if the tool fails."""
    quiet = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}
    path = f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **quiet, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_openapi_spec_validator_accepts_the_document(document: Path) -> None:
    run(PYTHON, "-m", "openapi_spec_validator", document, cwd=document.parent)


def test_redocly_finds_nothing(document: Path) -> None:
    run(BIN / "redocly", "lint", "--config", HERE / "redocly.yaml", document, cwd=document.parent)


def test_spectral_finds_nothing(document: Path) -> None:
    ruleset = HERE / "spectral.yaml"
    run(BIN / "spectral", "lint", "--fail-severity=hint", "--ruleset", ruleset, document, cwd=document.parent)


def test_typescript_types_compile(document: Path) -> None:
    folder = document.parent
    run(BIN / "openapi-typescript", document, "-o", folder / "schema.ts", cwd=folder)
    (folder / "client.ts").write_text((HERE / "client.ts").read_text())
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"]
    run(BIN / "tsc", *options, folder / "client.ts", cwd=folder)


@pytest.fixture(scope="module")
def python_client(document: Path) -> Path:
    """The folder that holds the generated Python client as the package `gridfleet_client`."""
    folder = document.parent / "python"
    folder.mkdir()
    target = folder / "gridfleet_client"
    generator = TOOLS / "bin" / "openapi-python-client"
    run(generator, "generate", "--path", document, "--output-path", target, "--meta", "none", cwd=folder)
    return folder


@pytest.fixture
def service(database_url: str, home: Path) -> Iterator[Served]:
    with served(database_url, home) as running:
        yield running


def test_the_python_client_has_a_function_for_each_operation_with_json(python_client: Path, document: Path) -> None:
    made = {path.stem for path in (python_client / "gridfleet_client" / "api").glob("*/*.py")} - {"__init__"}
    expected = {
        endpoint.handler.__name__
        for endpoint in ENDPOINTS.values()
        if endpoint.in_document and "text/csv" not in endpoint.content_types
    }
    assert made == expected


def test_the_python_client_works_and_is_typed(python_client: Path, service: Served, database_url: str) -> None:
    organization = service.headers["x-org-id"]
    user = {"email": "ada@example.com", "name": "Ada", "password": PASSWORD}
    made = httpx.post(f"{service.url}/api/v1/auth/register", json=user, headers=service.headers, timeout=60)
    assert made.status_code == 201, made.text
    with psycopg.connect(database_url) as db:
        db.execute(
            "INSERT INTO membership (id, organization_id, user_id, role)"
            " SELECT %s, %s, id, 'OPERATOR' FROM user_account WHERE email = %s",
            (new_id(), organization, user["email"]),
        )
    arguments = (HERE / "client.py", service.url, user["email"], PASSWORD, organization)
    plant = run(PYTHON, *arguments, cwd=python_client, PYTHONPATH=str(python_client)).strip()
    shown = httpx.get(f"{service.url}/api/v1/plants/{plant}", headers=service.headers, timeout=60)
    assert shown.json()["name"] == "North hall"
    types = ("--strict", "--follow-imports=silent", "--cache-dir", python_client / ".mypy_cache")
    run(sys.executable, "-m", "mypy", *types, HERE / "client.py", cwd=python_client, MYPYPATH=str(python_client))
