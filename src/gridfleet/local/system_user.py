"""The system user that owns a server's data if Gridfleet runs as root."""

import fcntl
import os
import pwd
import subprocess

__all__ = ["ensure_system_user"]


def ensure_system_user(name: str) -> pwd.struct_passwd:
    """Return a system user, which is created if it is missing.

    Several processes may call this at the same time. `useradd` alone does not exclude them: the second of two replaces the
    first's entry, and the id that the first has returned belongs to no user any more.
    """
    lock = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return pwd.getpwnam(name)
        except KeyError:
            command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
            subprocess.run(command, check=True, capture_output=True)
            return pwd.getpwnam(name)
    finally:
        os.close(lock)
