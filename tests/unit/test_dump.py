"""A restore whose input ends with an error, with a program in place of pg_restore that waits for all of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gridfleet.local import dump


@pytest.mark.timeout(20)
def test_a_restore_ends_if_its_input_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pg_restore"
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    monkeypatch.setattr(dump, "installed_binaries", lambda: tmp_path)

    def chunks() -> Iterator[bytes]:
        yield b"the first half"
        raise OSError("the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        dump.restore("postgresql:///nowhere", chunks())
