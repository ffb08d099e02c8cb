"""`gridfleet routes` and `gridfleet openapi`."""

import json
from pathlib import Path

from typer.testing import CliRunner

from gridfleet.cli import application


def test_routes_name_the_line_of_their_handler() -> None:
    printed = CliRunner().invoke(application, ["routes"])
    assert printed.exit_code == 0
    method, path, source = next(line for line in printed.output.splitlines() if "/api/v1/health/ready" in line).split()
    assert (method, path) == ("GET", "/api/v1/health/ready")
    file, line = source.rsplit(":", 1)
    assert '"/api/v1/health/ready"' in Path(file).read_text().splitlines()[int(line) - 1]


def test_openapi_is_printed_or_written(tmp_path: Path) -> None:
    printed = CliRunner().invoke(application, ["openapi"])
    CliRunner().invoke(application, ["openapi", "--output", str(tmp_path / "openapi.json")])
    assert json.loads(printed.output) == json.loads((tmp_path / "openapi.json").read_text())
    assert json.loads(printed.output)["openapi"] == "3.1.0"
