"""`make` installs the packages, also for a new Python, and says why it cannot: more than pip, which blames the version."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_package_index_that_is_away_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "some.lock").write_text(f"nothing-of-this-name==1 --hash=sha256:{'0' * 64}\n")
    # An interpreter that counts as made: what is under test is the step after it.
    add_program(tmp_path / ".venv" / "bin" / "python", f'exec "{sys.executable}" "$@"')

    done = subprocess.run(
        ["scripts/ensure_environment.sh", "some.lock"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "PIP_INDEX_URL" in done.stderr.splitlines()[-1]
    assert "Then run the same command again." in done.stderr


@pytest.mark.parametrize("works", [False, True], ids=["a Python without packages", "a Python with packages"])
def test_the_environment_is_made_again_after_an_upgrade_of_the_system(tmp_path: Path, works: bool) -> None:
    """The files that record the installation are newer than the lock file, and `.venv/bin/python` is a new Python."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "requirements.lock").touch()
    scripts = [f"scripts/{name}.sh" for name in ("ensure_environment", "ensure_rabbitmq", "build_console")]
    for program in (*scripts, ".venv/bin/gridfleet"):
        add_program(tmp_path / program, f"echo {program} $*")
    add_program(tmp_path / ".venv" / "bin" / "python", f"exit {0 if works else 1}")
    (tmp_path / ".venv" / ".installed-runtime").touch()
    (tmp_path / ".venv" / ".installed-development").touch()

    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["make", "up"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    installed = [] if works else ["scripts/ensure_environment.sh requirements.lock"]
    assert done.stdout.splitlines() == [
        *installed,
        "scripts/ensure_rabbitmq.sh .venv/bin/python",
        "scripts/build_console.sh",
        ".venv/bin/gridfleet up",
    ]
    assert (tmp_path / ".venv" / ".installed-development").exists() == works


def add_program(path: Path, line: str) -> None:
    """Write a shell script of one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
