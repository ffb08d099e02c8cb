"""Dump and restore a database as a stream of bytes with the embedded server's tools.

A dump is consistent while others write.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import Final

import psycopg

from gridfleet.local.postgres import installed_binaries

__all__ = ["DumpFailed", "dump", "restore", "server_version"]

_CHUNK: Final = 1 << 20


class DumpFailed(RuntimeError):
    """pg_dump or pg_restore failed; the text is its error output."""


def server_version(url: str) -> str:
    """Return the server's version, such as `17.2`. Raises psycopg errors."""
    with psycopg.connect(url, connect_timeout=5) as connection:
        return connection.info.parameter_status("server_version") or ""


def dump(url: str) -> Iterator[bytes]:
    """Yield the database at one point in time, in pg_dump's compressed custom format.

    Only schema changes have to wait until the dump is complete.

    Raises:
        DumpFailed: pg_dump failed.
    """
    command = ["pg_dump", "--format=custom", "--compress=3", "--no-owner", "--no-privileges", f"--dbname={url}"]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [installed_binaries() / command[0], *command[1:]],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        assert process.stdout is not None
        try:
            while chunk := process.stdout.read(_CHUNK):
                yield chunk
        except BaseException:
            process.terminate()
            raise
        finally:
            process.stdout.close()
            code = process.wait()
        if code != 0:
            complaints.seek(0)
            raise DumpFailed(complaints.read().decode(errors="replace").strip())


def restore(url: str, chunks: Iterable[bytes]) -> None:
    """Fill the empty database at `url` with the output of `dump`.

    Raises:
        DumpFailed: pg_restore failed. The database is then unusable.
    """
    command = ["pg_restore", "--exit-on-error", "--no-owner", "--no-privileges", f"--dbname={url}"]
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [installed_binaries() / command[0], *command[1:]],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
        )
        assert process.stdin is not None
        try:
            for chunk in chunks:
                process.stdin.write(chunk)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the process has ended; its exit code and error output give the reason
        except BaseException:
            process.kill()  # it would wait for the rest of its input
            raise
        finally:
            code = process.wait()
        if code != 0:
            complaints.seek(0)
            raise DumpFailed(complaints.read().decode(errors="replace").strip())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


def _environment() -> dict[str, str]:
    # Neither the user's PostgreSQL settings nor their files may influence the dump.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
