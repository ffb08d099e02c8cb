"""The output of `gridfleet up`, if what it is written to fails."""

import errno
import io
import sys

import pytest

from gridfleet.local.terminal import Terminal


class Disk(io.RawIOBase):
    """A file, whose writes can fail."""

    def __init__(self) -> None:
        self.content = b""
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self.error is not None:
            raise self.error
        self.content += bytes(data)
        return len(data)


def test_the_log_continues_after_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(disk)))
    terminal = Terminal()
    terminal.step("before")
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    for number in range(5_000):
        terminal.log("serve", f"line {number}")
    disk.error = None
    terminal.step("after")
    terminal.step("later")
    lines = disk.content.decode().splitlines()
    assert lines[0] == "• before"
    assert lines[-2:] == ["• after", "• later"]
    assert len(disk.content) < 50_000, "what could not be written does not fill the memory instead"


def test_a_terminal_without_some_characters_shows_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(disk), encoding="iso-8859-1"))
    terminal = Terminal()
    terminal.step("Zürich")
    terminal.table("Ready", {"password": "xyz"}, [])
    lines = disk.content.decode("iso-8859-1").splitlines()
    assert lines[0] == "? Zürich"
    assert "  password  xyz" in lines


@pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, "Broken pipe"), OSError(errno.EIO, "Input/output error")])
def test_a_reader_that_has_ended_is_left(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    disk = Disk()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(disk)))
    terminal = Terminal()
    disk.error = error
    terminal.step("after the end of the reader")
    assert sys.stdout.name == "/dev/null"
