"""The hook for commit messages refuses long subjects only."""

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "scripts" / "hooks" / "commit-msg"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("x" * 72, 0),
        ("ä" * 72, 0),
        ("# a comment of git\nShort\n\n" + "x" * 100, 0),
        ("x" * 73, 1),
    ],
)
def test_a_subject_has_at_most_72_characters(tmp_path: Path, message: str, code: int) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message + "\n")
    done = subprocess.run([HOOK, file], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert bool(done.stderr) == bool(code)
