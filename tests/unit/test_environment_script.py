"""What a user without the package index reads: more than pip's message, which blames the version."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_package_index_that_is_away_is_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "some.lock").write_text(f"nothing-of-this-name==1 --hash=sha256:{'0' * 64}\n")
    # An interpreter that counts as made: what is under test is the step after it.
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)

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
