"""Asks the advisory service about every locked package, and lists what the service stands on: `make audit`.

    .venv/bin/python scripts/audit.py

Writes `build/sbom.json` (CycloneDX, from requirements.lock), then runs pip-audit over both lock files. Exit codes: 0 nothing is
known against any package; 1 something is, or an exception in `audit.toml` is over; 2 the service could not be asked about every
package, so that nothing can be said.
"""

import datetime
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-dev.lock")
EXCEPTIONS = ROOT / "audit.toml"
SBOM = ROOT / "build" / "sbom.json"

CLEAN, FOUND, UNKNOWN = 0, 1, 2


@dataclass
class Report:
    """What came of an audit. `lines` are for people."""

    found: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    asked: int = 0

    @property
    def code(self) -> int:
        """The exit code."""
        if self.found:
            return FOUND
        return UNKNOWN if self.unasked or not self.asked else CLEAN

    def lines(self) -> Iterable[str]:
        """Every complaint, and a last line that says what to think."""
        yield from self.accepted
        yield from self.found
        if self.code == CLEAN:
            yield f"audit: nothing is known against {self.asked} packages"
        elif self.code == FOUND:
            yield f"audit: {len(self.found)} findings"
        else:
            first = self.unasked[0] if self.unasked else "no package was audited"
            yield (
                f"audit: {len(self.unasked)} packages could not be checked ({first}). The advisory service cannot be reached"
                " from here, or does not know them: this is no clean result. Run it again where the package index answers."
            )


def judge(answers: Iterable[dict[str, Any]], exceptions: Iterable[dict[str, Any]], today: datetime.date) -> Report:
    """What pip-audit's JSON answers mean, given the exceptions {id, reason, until}."""
    report = Report()
    allowed = {}
    for exception in exceptions:
        if exception["until"] < today:
            report.found.append(f"{exception['id']}: its exception in audit.toml was good until {exception['until']}")
        else:
            allowed[exception["id"]] = f"{exception['id']}: accepted until {exception['until']}: {exception['reason']}"
    seen = set()
    for package in (package for answer in answers for package in answer["dependencies"]):
        name = package["name"]
        if name in seen:
            continue
        seen.add(name)
        if "skip_reason" in package:
            report.unasked.append(package["skip_reason"])
            continue
        report.asked += 1
        for advisory in package["vulns"]:
            known = {advisory["id"], *advisory.get("aliases", ())} & allowed.keys()
            if known:
                report.accepted.append(allowed[known.pop()])
            else:
                fixed = ", ".join(advisory["fix_versions"]) or "no release"
                report.found.append(f"{name} {package['version']}: {advisory['id']}, fixed in {fixed}")
    return report


def ask(lock: str) -> dict[str, Any]:
    """pip-audit's answer about a lock file; one that names a single skipped thing when it could not even start."""
    command = ["pip_audit", "-r", lock, "--require-hashes", "--disable-pip", "-f", "json", "--progress-spinner", "off"]
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        complaint = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return {"dependencies": [{"name": lock, "skip_reason": complaint}]}
    return answer


def write_sbom(path: Path, lock: Path = ROOT / LOCKS[0]) -> None:
    """Writes what the lock file names as CycloneDX JSON; needs no network, and gives the same file for the same lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cyclonedx_py", "requirements", str(lock), "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    subprocess.run(
        [sys.executable, "-m", *command, "--of", "JSON", "-o", str(path)], check=True, capture_output=True, text=True
    )


def main() -> int:
    """Runs both parts and prints what came of them."""
    write_sbom(SBOM)
    print(f"audit: wrote {SBOM.relative_to(ROOT)}")  # noqa: T201
    exceptions = tomllib.loads(EXCEPTIONS.read_text()).get("exception", [])
    report = judge([ask(lock) for lock in LOCKS], exceptions, datetime.datetime.now(datetime.UTC).date())
    for line in report.lines():
        print(line, file=sys.stderr if report.code else sys.stdout)
    return report.code


if __name__ == "__main__":
    sys.exit(main())
