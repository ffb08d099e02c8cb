"""PgBouncer before a database."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from gridfleet.local.system_user import ensure_system_user
from support.servers.free_ports import free_ports

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def pooler(database_url: str, folder: Path, *, ignored: str) -> Iterator[str]:
    """Run PgBouncer in transaction mode until the end of the block. Yields the URL of the database through it.

    Args:
        ignored: Startup parameters that it ignores instead of refusing them.
    """
    assert PROGRAM is not None, "scripts/ensure_test_tools.sh installs PgBouncer"
    [port] = free_ports(1)
    parts = urlsplit(database_url)
    [host] = parse_qs(parts.query)["host"]
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={host} user={parts.username}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\nignore_startup_parameters = {ignored}\n"
    )
    # PgBouncer refuses to run as root.
    user = ensure_system_user("gridfleet").pw_name if os.geteuid() == 0 else None
    with (
        (folder / "pgbouncer.log").open("wb") as log,
        settings.open("rb") as content,
        subprocess.Popen(
            [PROGRAM, "/dev/stdin"], stdin=content, stderr=log, user=user, group=user and "nogroup", start_new_session=True
        ) as process,
    ):
        try:
            _wait_until_open(process, port)
            yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}"
        finally:
            process.kill()


def _wait_until_open(process: "subprocess.Popen[bytes]", port: int) -> None:
    for _ in range(200):
        assert process.poll() is None, f"PgBouncer ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("PgBouncer does not listen")
