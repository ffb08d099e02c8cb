"""`gridfleet routes` and `gridfleet openapi`."""

import json
from pathlib import Path

import pytest
import schemathesis
from typer.testing import CliRunner

from gridfleet.cli import application


def test_routes_name_the_line_of_their_handler() -> None:
    printed = CliRunner().invoke(application, ["routes"])
    assert printed.exit_code == 0
    method, path, source = next(line for line in printed.output.splitlines() if "/api/v1/health/ready" in line).split()
    assert (method, path) == ("GET", "/api/v1/health/ready")
    file, line = source.rsplit(":", 1)
    decorator = Path(file).read_text().splitlines()[int(line) - 1 :]
    assert decorator[0].startswith("@endpoint(")
    assert '"/api/v1/health/ready"' in "".join(decorator[:3])


def test_openapi_is_printed_or_written_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing can be reached, and there is no home.
    monkeypatch.setenv("GRIDFLEET_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("GRIDFLEET_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv("GRIDFLEET_PUBLIC_URL", "https://fleet.example.com")
    printed = CliRunner().invoke(application, ["openapi"])
    assert printed.exit_code == 0
    CliRunner().invoke(application, ["openapi", "--output", str(tmp_path / "openapi.json")])
    document = json.loads(printed.output)
    schemathesis.openapi.from_dict(document).validate()
    assert document["servers"] == [{"url": "https://fleet.example.com"}]
    assert printed.stdout_bytes == (tmp_path / "openapi.json").read_bytes()
