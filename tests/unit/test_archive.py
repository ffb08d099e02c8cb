"""One file that holds others: complete or absent, and every change is noticed."""

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridfleet.kernel.archive import BrokenArchive, new_archive, open_archive

MEMBERS = {
    "a/empty": b"",
    "a/one": b"1",
    "a/block": b"x" * 512,
    f"mail/{'long' * 40}.eml": b"y" * 3_000,
    "b/large": os.urandom(3_000_000),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "archive"
    with new_archive(found) as archive:
        for name, content in MEMBERS.items():
            # In pieces, as a dump comes.
            archive.add(name, [content[:700], content[700:]])
        archive.finish({"version": "1"})
    return found


def test_what_went_in_comes_out_and_only_its_owner_can_read_it(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    with open_archive(path) as archive:
        archive.verify()
        assert archive.facts == {"version": "1"}
        assert {name: b"".join(archive.read(name)) for name in archive.names} == MEMBERS
    with tarfile.open(path) as tar:  # any tar can read it
        assert tar.getnames() == [*MEMBERS, "manifest.json"]


@pytest.mark.parametrize("keep", [0, 100, 511, 512, 1_000, 5_000, 2_000_000, -2_000, -1_600, -1_024])
def test_a_file_that_was_cut_short_is_noticed(path: Path, keep: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    if keep == -1_024:  # the two empty blocks at the end say nothing
        assert_good(path)
    else:
        assert_broken(path)


def test_every_changed_byte_of_a_member_is_noticed(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for place in (whole.index(b"1" + bytes(511)), whole.index(b"x" * 512) + 3, len(whole) // 2):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert_broken(path)


def test_other_files_are_no_archives(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"text", bytes(10_240), os.urandom(5_000)):
        path.write_bytes(content)
        assert_broken(path)
    with tarfile.open(path, "w") as tar:
        tar.add(__file__, "member")
    assert_broken(path)


def test_nothing_remains_of_an_archive_that_was_not_finished(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b"1"
        raise RuntimeError

    with pytest.raises(RuntimeError), new_archive(tmp_path / "archive") as archive:
        archive.add("a", lines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path, end: signal.Signals) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from gridfleet.kernel.archive import new_archive\n"
        "with new_archive(pathlib.Path(sys.argv[1])) as archive:\n"
        "    archive.add('secrets/keys', [b'secret' * 100_000])\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "archive")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(end)
        writer.wait(30)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_has_come_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "archive"

    def write() -> None:
        with new_archive(path) as archive:
            archive.finish({})
            path.write_text("another's")

    with pytest.raises(FileExistsError):
        write()
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


def assert_good(path: Path) -> None:
    with open_archive(path) as archive:
        archive.verify()


def assert_broken(path: Path) -> None:
    with pytest.raises(BrokenArchive):
        assert_good(path)
