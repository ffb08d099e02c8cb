"""One file that contains other files with their checksums: a tar archive whose last member lists the others.

Members of any length are written as a stream. The file gets its name only when it is complete and on disk.
"""

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["Archive", "ArchiveWriter", "BrokenArchive", "new_archive", "open_archive"]

_MANIFEST: Final = "manifest.json"
_BLOCK: Final = tarfile.BLOCKSIZE
_CHUNK: Final = 1 << 20


class BrokenArchive(ValueError):
    """The file is not an archive of this format, or its content has changed."""


class ArchiveWriter:
    """Writer that adds members one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._members: dict[str, dict[str, Any]] = {}

    def add(self, name: str, chunks: Iterable[bytes]) -> int:
        """Add a member with this content. Returns its length in bytes."""
        start = self._file.tell()
        info = tarfile.TarInfo(name)
        info.mode = 0o600
        # Reserve space for the header, which contains the member's length. The size of the header depends on the name only.
        # TarFile.addfile wants the length first: a dump would be written to a second file, which takes twice the space, and
        # four times as long (500 MB).
        self._file.write(bytes(len(info.tobuf(tarfile.GNU_FORMAT))))
        digest = hashlib.sha256()
        size = 0
        for chunk in chunks:
            self._file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        self._file.write(bytes(-size % _BLOCK))
        info.size = size
        self._file.seek(start)
        self._file.write(info.tobuf(tarfile.GNU_FORMAT))
        self._file.seek(0, os.SEEK_END)
        self._members[name] = {"bytes": size, "sha256": digest.hexdigest()}
        return size

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write the list of members with `facts` about the archive, and wait until everything is on disk."""
        members = dict(self._members)
        self.add(_MANIFEST, [json.dumps({**facts, "members": members}, indent=2).encode()])
        self._file.write(bytes(2 * _BLOCK))
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def new_archive(path: Path) -> Iterator[ArchiveWriter]:
    """Create the archive at `path`, readable only by its owner, when the block ends without an error.

    After an error no file remains.

    Raises:
        FileExistsError: Another process has created a file at `path` in the meantime.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _nameless(folder, path) as (file, name):
            yield ArchiveWriter(file)
            os.link(name, path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


@contextmanager
def _nameless(folder: int, path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Yield a file that disappears when this process ends, and the path to link it from."""
    try:
        # Linux has files without a name, but not all of its file systems support them.
        handle = os.open(f"/proc/self/fd/{folder}", os.O_TMPFILE | os.O_WRONLY, 0o600)
    except (AttributeError, OSError):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file, name
        finally:
            Path(name).unlink()
    else:
        with os.fdopen(handle, "wb") as file:
            yield file, f"/proc/self/fd/{handle}"


class Archive:
    """An archive opened for reading. `facts` is the value that `finish` received."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        try:
            manifest = json.loads(b"".join(self._chunks(_MANIFEST)))
            self._members: dict[str, dict[str, Any]] = manifest.pop("members")
        except (KeyError, ValueError, AttributeError, TypeError):
            raise BrokenArchive("the list of its members is missing: the file is truncated, or not a backup") from None
        self.facts: dict[str, Any] = manifest

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return list(self._members)

    def verify(self) -> None:
        """Read the whole archive and compare it with its list of members.

        Raises:
            BrokenArchive: A member differs from what was written.
        """
        found = set(self._tar.getnames()) - {_MANIFEST}
        if found != set(self._members):
            raise BrokenArchive(f"its members differ from its list: {', '.join(sorted(found ^ set(self._members)))}")
        for name, expected in self._members.items():
            digest = hashlib.sha256()
            size = 0
            for chunk in self._chunks(name):
                digest.update(chunk)
                size += len(chunk)
            if {"bytes": size, "sha256": digest.hexdigest()} != expected:
                raise BrokenArchive(f"the checksum of {name} differs")

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in chunks.

        Raises:
            KeyError: There is no such member.
        """
        return self._chunks(name)

    def _chunks(self, name: str) -> Iterator[bytes]:
        member = self._tar.extractfile(name)
        if member is None:
            raise KeyError(name)
        while chunk := member.read(_CHUNK):
            yield chunk


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open the archive at `path`.

    Raises:
        BrokenArchive: The file is not a complete archive.
        OSError: The file cannot be read.
    """
    try:
        with tarfile.open(path, "r:") as tar:
            yield Archive(tar)
    except tarfile.TarError:
        raise BrokenArchive("the file is truncated, or not a backup") from None
