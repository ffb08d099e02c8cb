"""`make audit`: what is a finding, what is clean, and what is neither."""

import datetime
import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TODAY = datetime.date(2026, 11, 21)


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "scripts" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit"] = module
    spec.loader.exec_module(module)
    return module


def answer(*vulns: str, name: str = "left", version: str = "1.0") -> dict[str, Any]:
    found = [{"id": one, "aliases": ["CVE-2026-1"], "fix_versions": ["1.1"]} for one in vulns]
    return {"dependencies": [{"name": name, "version": version, "vulns": found}]}


SKIPPED = {"dependencies": [{"name": "left", "skip_reason": "Dependency not found on PyPI"}]}


def exception(until: str, id: str = "GHSA-1") -> dict[str, Any]:
    return {"id": id, "reason": "not called", "until": datetime.date.fromisoformat(until)}


@pytest.mark.parametrize(
    ("answers", "exceptions", "code", "says"),
    [
        ([answer()], [], 0, "nothing is known against 1 packages"),
        ([answer("GHSA-1")], [], 1, "left 1.0: GHSA-1, fixed in 1.1"),
        ([answer("GHSA-1")], [exception("2026-11-21")], 0, "not called"),
        ([answer("GHSA-1")], [exception("2026-12-01", "CVE-2026-1")], 0, "not called"),
        ([answer("GHSA-1")], [exception("2026-11-20")], 1, "was good until 2026-11-20"),
        ([answer()], [exception("2026-11-20")], 1, "was good until 2026-11-20"),
        ([SKIPPED], [], 2, "no clean result"),
        ([answer(name="right"), SKIPPED], [], 2, "1 packages could not be checked"),
        ([SKIPPED, answer("GHSA-1", name="right")], [], 1, "right 1.0: GHSA-1"),
        ([{"dependencies": []}], [], 2, "no package was audited"),
    ],
)
def test_what_an_answer_means(audit: ModuleType, answers: list[Any], exceptions: list[Any], code: int, says: str) -> None:
    report = audit.judge(answers, exceptions, TODAY)
    assert report.code == code
    assert says in "\n".join(report.lines())


def test_a_service_that_cannot_be_asked_is_no_clean_result(audit: ModuleType) -> None:
    assert audit.judge([audit.ask("no-such.lock")], [], TODAY).code == audit.UNKNOWN


def test_the_sbom_names_every_locked_package(audit: ModuleType, tmp_path: Path) -> None:
    audit.write_sbom(tmp_path / "sbom.json")
    components = json.loads((tmp_path / "sbom.json").read_text())["components"]
    locked = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(locked) > 50
    assert {(one["name"], one["version"]) for one in components} == set(locked)
    assert all(one["externalReferences"][0]["hashes"] for one in components)


def test_the_example_of_an_exception_reads_as_one() -> None:
    text = (ROOT / "audit.toml").read_text()
    example = re.sub(r"^# ?(?=\[\[|id|reason|until)", "", text, flags=re.MULTILINE)
    assert all(one.keys() == {"id", "reason", "until"} for one in tomllib.loads(example)["exception"])
